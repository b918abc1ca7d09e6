// SPDX-License-Identifier: Apache-2.0
// Logging in to beanstalk's protocol: docs/decisions/0018-login-by-the-name-of-a-tube.md.

#include "carillon/protocol/beanstalk/encoder.h"
#include "carillon/protocol/http/routes.h"
#include "carillon/server/client_session.h"

namespace carillon::server {
namespace {

namespace beanstalk = protocol::beanstalk;
using beanstalk::CommandName;
using beanstalk::Refusal;
using protocol::http::kAdminRole;
using protocol::http::kAnyRole;
using protocol::http::kConsumeRole;
using protocol::http::kProduceRole;
using protocol::http::Roles;

/// As of HTTP's routes. Who has reserved a job deletes it, and who has put it may take it back.
constexpr Roles roles_for(CommandName name) noexcept {
  switch (name) {
    case CommandName::kPut: return kProduceRole;
    case CommandName::kDelete: return kProduceRole | kConsumeRole;
    case CommandName::kReserve:
    case CommandName::kReserveWithTimeout:
    case CommandName::kReserveJob:
    case CommandName::kRelease:
    case CommandName::kBury:
    case CommandName::kTouch: return kConsumeRole;
    case CommandName::kKick:
    case CommandName::kKickJob:
    case CommandName::kPauseTube: return kAdminRole;
    default: return kAnyRole;
  }
}

std::string refusal_text(Refusal refusal) {
  std::string text;
  beanstalk::encode(refusal, text);
  return text;
}

}  // namespace

/// Whether the client may ask for that; if not, it is answered in the one way that all clients
/// know: as if there were no such command.
bool ClientSession::admits(const Request& request) {
  // What is no command at all is answered as ever.
  if (request.name == CommandName::kNone || request.name == CommandName::kQuit) return true;
  if ((roles_ & (roles_for(request.name) | kAdminRole)) != 0) return true;
  answer_here(CommandName::kNone, refusal_text(Refusal::kUnknownCommand));
  return false;
}

/// Whether it was a login, which is answered then.
bool ClientSession::take_login(const Request& request) {
  if (request.name == CommandName::kLogin) {
    if (log_in(request.token)) {
      answer_here(request.name, "LOGGED_IN " + protocol::http::to_string(roles_) + "\r\n");
    } else {
      answer_here(request.name, "LOGIN_FAILED\r\n");
    }
    return true;
  }
  const bool names_tube = request.name == CommandName::kUse || request.name == CommandName::kWatch;
  if (!names_tube || request.refusal || !request.tube.starts_with(kLoginTube)) return false;
  std::string text;
  if (!log_in(request.tube.substr(kLoginTube.size()))) {
    text = refusal_text(Refusal::kBadFormat);
  } else if (request.name == CommandName::kUse) {
    beanstalk::encode_using(request.tube, text);
  } else {
    beanstalk::encode_watching(watched_.size(), text);
  }
  answer_here(request.name, text);
  return true;
}

/// Whether the token is known. A wrong one changes nothing, but there may not be many.
bool ClientSession::log_in(std::string_view token) {
  const HttpTokens::Digest digest = HttpTokens::digest_of(token);
  const Roles roles = context_.logins->roles_of(digest);
  if (roles == 0) {
    quit_ = ++failed_logins_ >= kMaxFailedLogins;
    context_.on_failed_login(id_);
    return false;
  }
  login_ = digest;
  roles_ = roles;
  parser_.set_max_job_size(context_.max_job_size);
  return true;
}

void ClientSession::check_login() {
  const bool might = !needs_login_ || roles_ != 0;
  needs_login_ = context_.logins.has_value();
  roles_ = needs_login_ && login_ ? context_.logins->roles_of(*login_) : Roles{0};
  if (!needs_login_) parser_.set_max_job_size(context_.max_job_size);
  if (!needs_login_) return;
  if (might && roles_ == 0) quit_ = true;
  if ((roles_ & (kConsumeRole | kAdminRole)) != 0) return;
  if (waiting_slot_ != 0) end_waiting(watched_partitions() | held_in_);
}

}  // namespace carillon::server
