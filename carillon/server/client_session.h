// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One client of beanstalkd's protocol, without its socket: bytes go in, commands go to the
/// partitions, and the answers come out in the order in which the commands came in.
///
///     bytes ─► Parser ─► Request ─┬─ what the session knows itself ──────────► slot ─┐
///                                 └─ Partitions::submit ··· on_reply (any order) ─► slot ─► output
///
/// Every command takes a slot. A slot that is answered before an earlier one keeps its answer until
/// its turn. So partitions may answer in any order, and answers that must wait for the disk do not
/// hold up the deciding of later commands.
///
/// A command to several partitions (stats, list-tubes, a reserve whose tubes are spread) has one
/// slot, which collects their replies. Such a reserve waits in each partition; the first grant
/// wins, the others are told to stop, and a grant that crossed that message is given back.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/broker/reply.h"
#include "carillon/protocol/beanstalk/parser.h"
#include "carillon/protocol/beanstalk/server_stats.h"
#include "carillon/server/http_guard.h"
#include "carillon/server/output_buffer.h"
#include "carillon/server/partitions.h"

namespace carillon::server {

/// When a session stops reading because its client does not keep up, or is far ahead.
struct SessionLimits {
  /// Bytes of answers that the client has not taken, or that are on their way to it: an answer that
  /// is not known yet counts as kDocumentBytes if it is of statistics, a list of all tubes as the
  /// whole limit (so there is one such list at a time).
  std::size_t max_unsent_bytes = std::size_t{1} << 20;
  /// Commands without an answer.
  std::size_t max_unanswered = 16'384;
  /// Bytes of bodies in those; a command that may be answered with a job counts as the largest.
  std::size_t max_unanswered_bytes = std::size_t{16} << 20;
  /// Tubes watched; a watch beyond it is answered OUT_OF_MEMORY. A reserve looks at each of them.
  std::size_t max_watched_tubes = 10'000;
};

/// What all sessions share. Owned by the network thread.
struct SessionContext {
  Partitions& partitions;
  SessionLimits limits = {};
  std::uint32_t max_job_size = protocol::beanstalk::kDefaultMaxJobSize;
  /// Command::tubes_in_turn of reserves.
  bool tubes_in_turn = false;
  /// Puts are refused with DRAINING.
  bool draining = false;
  /// Nothing: everybody may do everything. Else a client has to log in with one of these, and may
  /// do what its roles are for. Who changes them calls check_login() of all sessions.
  std::optional<HttpTokens> logins = {};

  // Counted here by the sessions, for `stats`.
  std::array<std::uint64_t, protocol::beanstalk::kCommandNameCount> commands{};
  std::uint64_t producers = 0;  ///< Sessions open now that have put ...
  std::uint64_t workers = 0;    ///< ... that have reserved ...
  std::uint64_t waiting = 0;    ///< ... whose reserve has no answer yet.

  /// A client of this session has shown a token that nobody knows.
  std::function<void(broker::SessionId)> on_failed_login = [](broker::SessionId) {};
  /// Fills in what `stats` shows beside the jobs and the counters above.
  std::function<void(protocol::beanstalk::ServerStats&)> describe_server = {};
};

/// Threads:  one object, one thread (the network thread).
/// Lifetime: the context and the output must outlive it. It is open in all partitions from its
///           construction to its destruction.
/// Limits:   SessionLimits; what was read and not parsed yet is at most one read plus kReadAhead.
class ClientSession {
 public:
  ClientSession(broker::SessionId id, SessionContext& context, OutputBuffer& output);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  // Input.

  /// Takes `bytes` that have arrived. What cannot be parsed now (a reserve waits, a limit) is kept.
  void receive(std::string_view bytes);
  /// The client will send no more: a waiting reserve ends now, and so does every later one that
  /// would have to wait.
  void end_input();
  /// Goes on with what was kept. To be called when answers have been sent or have come in.
  void resume();
  /// Whether to read more from the client.
  [[nodiscard]] bool wants_input() const noexcept;
  /// Whether resume() would parse anything.
  [[nodiscard]] bool can_resume() const noexcept { return kept_size() > 0 && can_parse(); }
  /// See Parser; for reading a large body in place.
  [[nodiscard]] std::span<char> body_room();
  void body_filled(std::size_t count) noexcept;

  /// Whether the client has to log in and has not.
  [[nodiscard]] bool lacks_login() const noexcept { return needs_login_ && roles_ == 0; }
  /// The logins have changed: ends the session if it may do nothing any more.
  void check_login();

  // Answers.

  void on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply);
  /// Whether everything there will ever be is in the output: the client has quit, or has ended its
  /// input and got all its answers.
  [[nodiscard]] bool finished() const noexcept;
  /// Whether commands are without an answer, a waiting reserve included.
  [[nodiscard]] bool has_unanswered() const noexcept { return first_ < slots_.size(); }

  [[nodiscard]] broker::SessionId id() const noexcept { return id_; }

  /// While the session waits, input is still read up to this many bytes, so that the end of the
  /// input is seen.
  static constexpr std::size_t kReadAhead = std::size_t{64} * 1024;
  /// No more is parsed at a time once it has been answered with this much, so that a session that
  /// asks for much does not keep the others waiting: resume() goes on.
  static constexpr std::size_t kTurnBytes = std::size_t{64} * 1024;
  /// Nor once it has been this much work: a command is 1, and for every 8 watched tubes 1 more if
  /// it goes through them.
  static constexpr std::size_t kTurnWork = 8'192;
  /// With the last of these wrong tokens the session ends.
  static constexpr int kMaxFailedLogins = 3;
  /// `use` and `watch` of a tube whose name is this and a token log in, for the clients that know
  /// no other commands.
  static constexpr std::string_view kLoginTube = "login;";
  /// What an answer of statistics takes; rounded up.
  static constexpr std::size_t kDocumentBytes = 2'048;

 private:
  using Request = protocol::beanstalk::Request;
  using CommandName = protocol::beanstalk::CommandName;

  /// What a slot needs if its answer is not just the reply of a partition.
  struct Extra {
    std::string text;          // The answer, if it is known here, or if the partition agrees.
    std::string tube;          // use, watch: the tube.
    std::string earlier_tube;  // use: what to go back to if it is refused.
  };
  /// The replies of several partitions to one command.
  struct Gathering {
    std::uint64_t outstanding = 0;  // The set of partitions whose reply is missing.
    bool deadline_soon = false;
    protocol::beanstalk::ServerStats stats;
    std::vector<broker::TubeNames> names;  // By partition.
  };
  struct Slot {
    CommandName name = CommandName::kNone;
    bool answered = false;
    bool answered_by_text = false;
    std::uint32_t bytes = 0;     // Of bodies; counted in unanswered_bytes_.
    std::uint32_t document = 0;  // Of an answer without a body; counted in coming_bytes_.
    broker::Reply reply;         // Once answered.
    std::unique_ptr<Extra> extra;
    std::unique_ptr<Gathering> gathering;
  };

  [[nodiscard]] std::size_t kept_size() const noexcept { return kept_.size() - kept_from_; }
  [[nodiscard]] bool can_parse() const noexcept;
  std::string_view parse(std::string_view bytes);
  [[nodiscard]] std::size_t work_of(protocol::beanstalk::CommandName name) const noexcept;
  void perform(Request& request);
  [[nodiscard]] bool admits(const Request& request);
  [[nodiscard]] bool take_login(const Request& request);
  bool log_in(std::string_view token);

  // Commands.
  void put(Request& request);
  void reserve(const Request& request);
  void use(const Request& request);
  void watch(const Request& request);
  void ignore(const Request& request);
  void answer_watched();
  void ask_by_job(broker::Verb verb, const Request& request);
  void ask_by_tube(broker::Verb verb, const Request& request, std::string_view tube);
  void ask_all(broker::Verb verb, CommandName name);

  void settle_first(std::uint64_t number);

  // Slots.
  Slot& open_slot(CommandName name, std::uint32_t bytes = 0);
  [[nodiscard]] std::uint64_t last_slot() const noexcept { return slots_from_ + slots_.size() - 1; }
  [[nodiscard]] Slot* unanswered(std::uint64_t number) noexcept;
  void answer_here(CommandName name, std::string_view text);
  [[nodiscard]] broker::Command command(broker::Verb verb, std::uint64_t slot) const;
  void complete(std::uint64_t number, broker::Reply reply);
  void settle_tubes(Slot& slot, const broker::Reply& reply);
  [[nodiscard]] std::size_t document_bytes(CommandName name) const noexcept;
  void write(Slot& slot);
  void drop_written();

  // Several partitions.
  void gather_reserve(std::size_t partition, std::uint64_t number, broker::Reply reply);
  void gather_detail(std::size_t partition, std::uint64_t number, broker::Reply reply);
  void finish_gathering(std::uint64_t number);
  [[nodiscard]] std::uint64_t watched_partitions() const;
  void end_waiting(std::uint64_t partitions);
  void wait_is_over();

  // Constant after construction.
  const broker::SessionId id_;
  SessionContext& context_;
  OutputBuffer& output_;

  protocol::beanstalk::Parser parser_;
  // Read and not parsed yet: kept_ from kept_from_ on.
  std::string kept_;
  std::size_t kept_from_ = 0;
  bool input_ended_ = false;
  bool quit_ = false;
  bool producer_ = false;
  bool worker_ = false;
  bool needs_login_ = false;  // When it was last looked at.
  protocol::http::Roles roles_ = 0;
  int failed_logins_ = 0;
  std::optional<HttpTokens::Digest> login_;

  std::string used_ = "default";
  std::vector<std::string> watched_ = {"default"};

  // Slots are numbered from 1. slots_[0] has number slots_from_; those before index first_ have
  // been written and are dropped in bulk.
  std::vector<Slot> slots_;
  std::size_t first_ = 0;
  std::uint64_t slots_from_ = 1;
  // Both of what has not been written: what has is in output_, and counted there.
  std::size_t unanswered_bytes_ = 0;
  std::size_t coming_bytes_ = 0;
  std::uint64_t waiting_slot_ = 0;  // Of a reserve that may wait for a job; 0: none.
  // Of a use or watch that its partition may still refuse; nothing is parsed until it is known. 0:
  // none.
  std::uint64_t settling_slot_ = 0;
  std::uint64_t held_in_ = 0;  // Partitions of which it has had a job: where it may hold one.
};

}  // namespace carillon::server
