// SPDX-License-Identifier: Apache-2.0
// Long because all parts of the server meet here: what could go has its own file.
#include "carillon/server/server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <csignal>
#include <optional>
#include <utility>

#include "carillon/base/clock.h"
#include "carillon/broker/timeline.h"
#include "carillon/protocol/beanstalk/encoder.h"
#include "carillon/server/backup_runner.h"
#include "carillon/server/connection.h"
#include "carillon/server/connection_table.h"
#include "carillon/server/host_facts.h"
#include "carillon/server/http_server.h"
#include "carillon/server/listener.h"
#include "carillon/server/log_pace.h"
#include "carillon/server/login_watch.h"
#include "carillon/server/partition_setup.h"
#include "carillon/server/supervisor.h"
#include "carillon/server/webhook_loop.h"

namespace carillon::server {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};

/// One read takes at most this much, so that one client cannot hold up a turn.
constexpr std::size_t kReadBuffer = std::size_t{128} * 1024;
/// How long a connection whose answers are all sent is kept until its client has them, and how
/// often to look.
constexpr auto kLinger = std::chrono::milliseconds(500);
constexpr auto kLingerLook = std::chrono::milliseconds(10);
/// What is left for the checkpoint when drain-timeout has passed while answers were being sent.
constexpr auto kLastCheckpoint = std::chrono::seconds(2);
/// Files that the store and the process itself need: half of those there may be, within these.
constexpr std::uint64_t kLeastReservedFiles = 160;
constexpr std::uint64_t kMostReservedFiles = 1024;
/// With fewer the server does not start.
constexpr std::uint64_t kLeastFiles = 256;
/// Refused connections are logged this often at most.
constexpr Span kRefusalLogInterval = std::chrono::seconds(10);

std::string connections_in_words(std::size_t count) {
  return fmt::format("{} connection{}", count, count == 1 ? "" : "s");
}

}  // namespace

class Server::Impl final : private ConnectionOwner {
 public:
  Impl(const ServerOptions& options, Log log)
      : options_(options), log_(std::move(log)), read_buffer_(kReadBuffer) {}
  ~Impl() {
    listeners_.clear();
    if (webhooks_) (*webhooks_)->close();
  }

  Result<void> start();
  bool run();

  [[nodiscard]] std::vector<Endpoint> endpoints() const {
    std::vector<Endpoint> endpoints;
    endpoints.reserve(listeners_.size());
    for (const auto& listener : listeners_) endpoints.push_back(listener->at());
    return endpoints;
  }
  [[nodiscard]] std::vector<Endpoint> http_endpoints() const {
    return http_ == nullptr ? std::vector<Endpoint>() : http_->endpoints();
  }
  void request_stop() {
    boost::asio::post(loop_, [this] { stop(); });
  }
  void request_drain_mode() {
    boost::asio::post(loop_, [this] { enter_drain_mode(); });
  }
  void request_reload() {
    boost::asio::post(loop_, [this] { reload(); });
  }
  void back_up(std::string name, BackupDone done) {
    boost::asio::post(loop_, [this, name = std::move(name), done = std::move(done)]() mutable {
      if (Result<void> begun = backups_->start(name, done); !begun) done(std::move(begun).error());
    });
  }
  void reload_by(Reload reload) { reload_ = std::move(reload); }

 private:
  // ConnectionOwner.
  void request_work(broker::SessionId session) override;
  void close(broker::SessionId session) override;
  bool accepts_work(broker::SessionId asking) override;
  std::span<char> read_buffer() override { return read_buffer_; }
  Connection* find(broker::SessionId session) override { return connections_.find(session); }

  void say_ready();
  void apply_limits();
  /// How the files that there may be are divided among those that open any.
  struct Shares {
    std::uint64_t connections;  // Of clients, of both protocols.
    std::uint64_t webhooks;
  };
  [[nodiscard]] Shares shares_of(const ServerOptions& options) const;
  void say_lowered(std::string_view option, std::uint64_t wanted, std::uint64_t value);
  void apply_hold();
  void warn_of_open_ports() const;
  Result<void> open_listeners();
  Result<void> listen(const std::vector<Endpoint>& endpoints, bool with_tls);
  /// What lies in files that options name, read and made out: taken over as a whole, or not.
  struct Change {
    std::optional<HttpTokens> logins = {};  // Of beanstalk's clients. Nothing: they need none.
    std::shared_ptr<TlsContext> tls = {};   // The same.
    std::optional<HttpServer::Change> http = {};
    std::optional<WebhookLoop::Change> webhooks = {};
  };
  [[nodiscard]] Result<Change> prepare(const ServerOptions& options) const;
  void apply(Change change);
  Result<void> open_http();
  [[nodiscard]] bool webhooks_are_idle() const { return !webhooks_ || (*webhooks_)->idle(); }
  [[nodiscard]] std::size_t connection_count() const noexcept {
    return connections_.size() + (http_ == nullptr ? 0 : http_->size());
  }
  void on_accept(FileDescriptor socket, bool with_tls);
  void refuse(FileDescriptor socket);
  void on_late_login(Connection& connection);
  void on_reply(std::size_t partition, broker::Ticket ticket, broker::Reply reply);
  void request_turn();
  void turn();
  void send_answers();
  void work_on(broker::SessionId session);
  void wait_for_lingering();
  void wait_for_signals();
  void on_signal(int signal);
  void reload();
  std::uint64_t take_over(const ServerOptions& read);
  void enter_drain_mode();
  void stop();
  void wait_for_drain(Span at_most);
  void on_drain_timeout();
  void go_on_stopping();
  void end(bool clean);
  void describe(protocol::beanstalk::ServerStats& stats) const;
  [[nodiscard]] std::vector<std::pair<std::string_view, std::uint64_t>> limits() const;

  ServerOptions options_;
  const Log log_;
  Reload reload_;
  const BootClock clock_;
  const SystemCalendar calendar_;
  const std::string process_id_ = random_id();
  const Instant started_at_ = clock_.now();

  // The order is that of destruction, reversed: nothing runs on the loop while or after the rest
  // goes; sessions close in the partitions, which die before their stores' database.
  boost::asio::io_context loop_{1};
  boost::asio::signal_set signals_{loop_};
  boost::asio::steady_timer drain_timer_{loop_};
  boost::asio::steady_timer linger_timer_{loop_};
  PartitionsWithStore partitions_;
  std::unique_ptr<BackupRunner> backups_;
  std::unique_ptr<SessionContext> context_;
  LoginWatch logins_{loop_, clock_, log_,
                     [this](WheelHook& hook) { on_late_login(static_cast<Connection&>(hook)); }};
  ConnectionTable connections_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::shared_ptr<TlsContext> tls_;
  std::unique_ptr<WebhookLoop> webhooks_;
  std::unique_ptr<HttpServer> http_;  // Null: nobody is to be served so.

  std::vector<char> read_buffer_;
  std::vector<broker::SessionId> to_work_;
  std::vector<broker::SessionId> working_;  // Empty between turns; kept for its memory.
  std::vector<broker::SessionId> held_up_;  // By partitions that took no more work.
  struct Lingering {
    broker::SessionId session;
    Instant until;
  };
  std::vector<Lingering> lingering_;
  bool turn_requested_ = false;
  bool partitions_turning_ = false;  // What is answered now is sent in this very turn.

  std::uint64_t files_ = 0;            // That may be open.
  std::uint64_t max_connections_ = 0;  // Of beanstalk's clients.
  std::uint64_t max_sockets_ = 0;      // Of all clients.
  std::uint64_t total_connections_ = 0;
  LogPace refused_{kRefusalLogInterval};

  enum class Phase : std::uint8_t { kServing, kDraining, kCheckpoint, kEnded };
  Phase phase_ = Phase::kServing;
  Instant drain_until_{};
  bool clean_ = false;
};

// Start.

Result<void> Server::Impl::start() {
  std::signal(SIGPIPE, SIG_IGN);
  // Opening the store may take long. A signal that comes meanwhile is acted upon by run(); none
  // interrupts a thread of the store, ever.
  const SignalsHeldBack held;
  wait_for_signals();
  const std::uint64_t files = raise_file_limit();
  if (files < kLeastFiles) {
    return Error{ErrorCode::kLimitExceeded,
                 fmt::format("the limit of open files (ulimit -n) is {}, at least {} are needed",
                             files, kLeastFiles)};
  }
  files_ = files;
  if (!options_.memory) {
    if (Result<void> writable = check_writable(options_.data); !writable) return writable;
  }
  PartitionGroup::Events events{
      [this](std::size_t partition, broker::Ticket ticket, broker::Reply reply) {
        on_reply(partition, ticket, std::move(reply));
      },
      [this] { request_turn(); }, [this] { send_answers(); }};
  Result<PartitionsWithStore> partitions =
      open_partitions(options_, loop_, clock_, calendar_, std::move(events), log_);
  if (!partitions) {
    Error error = std::move(partitions).error();
    if (error.code == ErrorCode::kCorrupt) {
      error.message += fmt::format(
          "; nothing was changed. `carillon check {}` names every fault, then restore a backup: "
          "docs/operating/failures.md",
          options_.data);
    }
    return error;
  }
  partitions_ = std::move(*partitions);
  backups_ = std::make_unique<BackupRunner>(loop_, partitions_.database.get(),
                                            options_.backup_folder, log_);
  context_ = std::make_unique<SessionContext>(SessionContext{*partitions_.group});
  apply_limits();
  context_->on_failed_login = [this](broker::SessionId session) {
    if (Connection* connection = connections_.find(session)) {
      logins_.note_failed("beanstalk", connection->peer());
    }
  };
  context_->describe_server = [this](protocol::beanstalk::ServerStats& stats) { describe(stats); };
  webhooks_ = std::make_unique<WebhookLoop>(
      loop_, *partitions_.group, clock_, calendar_, [this] { request_turn(); }, log_);
  if (Result<void> opened = open_listeners(); !opened) return opened;
  if (Result<void> opened = open_http(); !opened) return opened;
  apply_hold();
  webhooks_->start();
  say_ready();
  warn_of_open_ports();
  if (options_.hold) {
    log_(LogLevel::kWarning, "hold", "hold: webhooks post nothing and schedules put nothing");
  }
  return {};
}

void Server::Impl::say_ready() {
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - started_at_);
  std::string where;
  for (const Endpoint& at : endpoints()) where.append(where.empty() ? "" : ", ") += at.to_string();
  std::string http;
  for (const Endpoint& at : http_endpoints()) {
    http.append(http.empty() ? ", HTTP on " : ", ") += at.to_string();
  }
  const PartitionGroup::Totals totals = partitions_.group->totals();
  log_(LogLevel::kInfo, "ready",
       fmt::format("carillon {} listens on {}{}; {}; ready after {} ms", version(), where, http,
                   options_.memory ? "jobs in memory only"
                                   : fmt::format("jobs in {}: {} near, {} far", options_.data,
                                                 totals.recovered_jobs, totals.recovered_far_jobs),
                   took.count()),
       {{"version", version()},
        {"listen", where},
        {"data", options_.memory ? std::string() : options_.data},
        {"near", totals.recovered_jobs},
        {"far", totals.recovered_far_jobs},
        {"took_ms", took.count()}});
  notify_supervisor("READY=1");
}

/// So that none can take what another needs: without files the store ends its service, and clients
/// are not let in. Webhooks have at most a quarter of what the store leaves.
Server::Impl::Shares Server::Impl::shares_of(const ServerOptions& options) const {
  const std::uint64_t sockets =
      files_ - std::clamp(files_ / 2, kLeastReservedFiles, kMostReservedFiles);
  const std::uint64_t webhooks = std::min(options.webhook_connections, sockets / 4);
  return {sockets - webhooks, webhooks};
}

void Server::Impl::say_lowered(std::string_view option, std::uint64_t wanted, std::uint64_t value) {
  if (value == wanted) return;
  log_(LogLevel::kWarning, "limit_lowered",
       fmt::format("{} is {}, but the limit of {} open files allows {}", option, wanted, files_,
                   value),
       {{"option", option}, {"value", value}});
}

/// Those that may change while the server runs.
void Server::Impl::apply_limits() {
  context_->limits = {options_.max_unsent, options_.max_unanswered, options_.max_unanswered_size};
  context_->max_job_size = static_cast<std::uint32_t>(options_.max_job_size);
  context_->tubes_in_turn = options_.tubes_in_turn;
  logins_.set_timeout(options_.login_timeout);
  const Shares shares = shares_of(options_);
  max_sockets_ = shares.connections;
  max_connections_ = std::min(options_.max_connections, max_sockets_);
  say_lowered("max-connections", options_.max_connections, max_connections_);
  say_lowered("webhook-connections", options_.webhook_connections, shares.webhooks);
}

void Server::Impl::apply_hold() {
  (*webhooks_)->hold(options_.hold);
  partitions_.group->hold_schedules(options_.hold || context_->draining);
}

/// Beanstalk's protocol has no tokens by default, and most clients cannot send any: so unlike HTTP
/// it is not refused.
void Server::Impl::warn_of_open_ports() const {
  if (!options_.login_tokens.empty()) return;
  const auto warn = [this](const std::vector<Endpoint>& endpoints) {
    for (const Endpoint& endpoint : endpoints) {
      if (endpoint.is_local()) continue;
      log_(LogLevel::kWarning, "open_port",
           fmt::format("whoever reaches {} may do anything with all jobs: it is not of the "
                       "loopback, and there are no login-tokens",
                       endpoint.to_string()),
           {{"listen", endpoint.to_string()}});
    }
  };
  warn(options_.listen);
  // Clients that need a certificate are known.
  if (options_.tls_client_ca.empty()) warn(options_.listen_tls);
}

Result<void> Server::Impl::open_listeners() {
  Result<Change> change = prepare(options_);
  if (!change) return std::move(change).error();
  apply(std::move(*change));
  Result<void> opened = listen(options_.listen, false);
  if (opened) opened = listen(options_.listen_tls, true);
  return opened ? opened : std::move(opened).error().prefixed("listen");
}

Result<void> Server::Impl::listen(const std::vector<Endpoint>& endpoints, bool with_tls) {
  for (const Endpoint& endpoint : endpoints) {
    Result<std::vector<ListeningSocket>> sockets = listen_on(endpoint);
    if (!sockets) return std::move(sockets).error();
    for (ListeningSocket& socket : *sockets) {
      listeners_.push_back(std::make_unique<Listener>(
          loop_, std::move(socket),
          [this, with_tls](FileDescriptor fd) { on_accept(std::move(fd), with_tls); }, log_));
    }
  }
  return {};
}

Result<Server::Impl::Change> Server::Impl::prepare(const ServerOptions& options) const {
  Change change;
  if (!options.login_tokens.empty()) {
    Result<HttpTokens> loaded = HttpTokens::load(options.login_tokens);
    if (!loaded) return std::move(loaded).error().prefixed("login-tokens");
    change.logins = std::move(*loaded);
  }
  if (!options.listen_tls.empty()) {
    Result<std::shared_ptr<TlsContext>> loaded =
        TlsContext::load({options.tls_cert, options.tls_key, options.tls_client_ca});
    if (!loaded) return std::move(loaded).error();
    change.tls = std::move(*loaded);
  }
  ServerOptions possible = options;
  possible.webhook_connections = shares_of(options).webhooks;
  Result<WebhookLoop::Change> webhooks = webhooks_->prepare(possible);
  if (!webhooks) return std::move(webhooks).error();
  change.webhooks = std::move(*webhooks);
  if (http_ != nullptr) {  // At the start it does so itself.
    Result<HttpServer::Change> http = HttpServer::prepare(options);
    if (!http) return std::move(http).error();
    change.http = std::move(*http);
  }
  return change;
}

/// The options are those that it was prepared from. Whoever is connected and may do nothing any
/// more is closed.
void Server::Impl::apply(Change change) {
  context_->logins = std::move(change.logins);
  connections_.for_each([](Connection& connection) { connection.check_login(); });
  tls_ = std::move(change.tls);
  if (change.webhooks) webhooks_->apply(std::move(*change.webhooks));
  if (change.http) http_->apply(std::move(*change.http));
}

Result<void> Server::Impl::open_http() {
  if (options_.http_listen.empty() && options_.https_listen.empty()) return {};
  HttpServer::Outside outside{
      *partitions_.group,
      clock_,
      calendar_,
      &**webhooks_,
      [this] {
        if (!partitions_turning_) request_turn();
      },
      [this] { return connection_count() < max_sockets_; },
      [this] {
        HttpContext::ServerFacts facts;
        facts.connections = connections_.size();
        facts.http_connections = http_->size();
        facts.refused_connections = refused_.count();
        facts.failed_logins = logins_.failed("beanstalk");
        facts.late_logins = logins_.late();
        facts.http_failed_logins = logins_.failed("http");
        const PartitionGroup::Totals totals = partitions_.group->totals();
        facts.commit_failures = totals.commit_failures;
        facts.recoveries = totals.recoveries;
        facts.accepts_puts = totals.accepts_puts;
        facts.held = options_.hold;
        facts.uptime_ms =
            std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - started_at_)
                .count();
        facts.version = version();
        facts.id = process_id_;
        facts.store = options_.memory ? "memory" : "RocksDB";
        if (!options_.memory) {
          facts.data = options_.data;
          facts.free_bytes = free_bytes_of(options_.data);
          facts.min_free_bytes = options_.min_free_space;
        }
        facts.memory_bytes = resident_bytes();
        facts.limits = limits();
        return facts;
      },
      [this](const std::string& peer) { logins_.note_failed("http", peer); },
      log_};
  http_ = std::make_unique<HttpServer>(loop_, options_, std::move(outside));
  return http_->open();
}

bool Server::Impl::run() {
  request_turn();  // What fell due while nobody was looking.
  loop_.run();
  // A signal that comes while all is put away must not make a clean stop look like a kill.
  for (const int signal : kSignals) {
    boost::system::error_code ignored;
    signals_.remove(signal, ignored);
    std::signal(signal, SIG_IGN);
  }
  return clean_;
}

// Connections.

void Server::Impl::on_accept(FileDescriptor socket, bool with_tls) {
  ++total_connections_;
  if (connections_.size() >= max_connections_ || connection_count() >= max_sockets_) {
    // A handshake is more than it is worth: with TLS it is just closed.
    return refuse(with_tls ? FileDescriptor() : std::move(socket));
  }
  const broker::SessionId id = connections_.next_id();
  ConnectionOwner& owner = *this;
  try {
    connections_.insert(
        id, std::make_unique<Connection>(loop_, std::move(socket), with_tls ? tls_ : nullptr, id,
                                         *context_, owner));
    if (context_->logins) logins_.watch(*connections_.find(id));
  } catch (const boost::system::system_error& error) {
    log_(LogLevel::kError, "accept",
         fmt::format("a connection cannot be watched: {}", error.what()));
  }
  request_turn();
}

void Server::Impl::refuse(FileDescriptor socket) {
  if (socket.is_open()) {
    std::string line;
    protocol::beanstalk::encode_refused_connection(line);
    [[maybe_unused]] const ssize_t sent =
        ::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  const std::optional<std::uint64_t> refused = refused_.note(clock_.now());
  if (!refused) return;
  log_(LogLevel::kWarning, "connections_refused",
       fmt::format("max-connections: {} are open, {} more refused", connections_.size(), *refused),
       {{"open", connections_.size()}, {"refused", *refused}});
}

/// The time that a client had to log in is over.
void Server::Impl::on_late_login(Connection& connection) {
  // If it has quit, or the server is ending, it is closed when it has its answers.
  if (!connection.lacks_login() || phase_ != Phase::kServing) return;
  logins_.note_late(connection.peer());
  close(connection.id());
}

void Server::Impl::on_reply(std::size_t partition, broker::Ticket ticket, broker::Reply reply) {
  if (HttpServer::owns(ticket.session)) {
    if (http_ != nullptr) http_->on_reply(partition, ticket, std::move(reply));
    return;
  }
  if (Webhooks::owns(ticket.session)) {
    if (webhooks_) (*webhooks_)->on_reply(partition, ticket, std::move(reply));
    return;
  }
  if (Connection* connection = connections_.find(ticket.session)) {
    connection->on_reply(partition, ticket.slot, std::move(reply));
  }
}

void Server::Impl::request_work(broker::SessionId session) {
  if (connections_.enlist(session, ConnectionTable::List::kToWork)) to_work_.push_back(session);
  if (!partitions_turning_) request_turn();
}

bool Server::Impl::accepts_work(broker::SessionId asking) {
  if (partitions_.group->accepts_work()) return true;
  if (connections_.enlist(asking, ConnectionTable::List::kHeldUp)) held_up_.push_back(asking);
  return false;
}

// Turns.

void Server::Impl::request_turn() {
  if (std::exchange(turn_requested_, true)) return;
  boost::asio::post(loop_, [this] { turn(); });
}

void Server::Impl::turn() {
  turn_requested_ = false;
  partitions_turning_ = true;
  partitions_.group->end_turn();
  partitions_turning_ = false;
  if (!held_up_.empty() && partitions_.group->accepts_work()) {
    for (const broker::SessionId session : std::exchange(held_up_, {})) {
      connections_.strike_off(session, ConnectionTable::List::kHeldUp);
      request_work(session);
    }
  }
  // Those marked meanwhile have their turn next time.
  working_.swap(to_work_);
  for (const broker::SessionId session : working_) work_on(session);
  working_.clear();
  if (http_ != nullptr) http_->turn();
  if (webhooks_) webhooks_->turn();
  if (phase_ != Phase::kServing) go_on_stopping();
}

void Server::Impl::send_answers() {
  for (const broker::SessionId session : to_work_) {
    if (Connection* connection = connections_.find(session)) connection->send_answers();
  }
  if (http_ != nullptr) http_->send_answers();
}

void Server::Impl::work_on(broker::SessionId session) {
  connections_.strike_off(session, ConnectionTable::List::kToWork);
  Connection* connection = connections_.find(session);
  if (connection == nullptr) return;
  switch (connection->work()) {
    case Connection::State::kOpen: return;
    case Connection::State::kClosed: close(session); return;
    case Connection::State::kLingering:
      lingering_.push_back({session, clock_.now() + kLinger});
      if (lingering_.size() == 1) {
        linger_timer_.expires_after(kLingerLook);
        linger_timer_.async_wait([this](const boost::system::error_code& error) {
          if (!error) wait_for_lingering();
        });
      }
      return;
  }
}

void Server::Impl::close(broker::SessionId session) {
  connections_.erase(session);
  request_turn();  // Its reservations went back to ready.
}

/// Closes those whose client has everything, or had its time, and looks again later.
void Server::Impl::wait_for_lingering() {
  const Instant now = clock_.now();
  std::erase_if(lingering_, [&](const Lingering& lingering) {
    Connection* connection = connections_.find(lingering.session);
    if (connection == nullptr) return true;
    if (lingering.until > now && !connection->delivered()) return false;
    close(lingering.session);
    return true;
  });
  if (lingering_.empty()) return;
  linger_timer_.expires_after(kLingerLook);
  linger_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) wait_for_lingering();
  });
}

// The end.

void Server::Impl::wait_for_signals() {
  for (const int signal : kSignals) signals_.add(signal);
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    on_signal(signal);
    wait_for_signals();
  });
}

void Server::Impl::on_signal(int signal) {
  switch (signal) {
    case SIGUSR1: enter_drain_mode(); return;
    case SIGUSR2: {
      // The end of one that has begun is logged anyway.
      const Result<void> begun = backups_->start({}, [](const Result<MadeBackup>&) {});
      if (!begun) log_(LogLevel::kError, "backup_failed", "backup: " + begun.error().message);
      return;
    }
    case SIGHUP: reload(); return;
    default: stop(); return;
  }
}

void Server::Impl::enter_drain_mode() {
  if (std::exchange(context_->draining, true)) return;
  if (http_ != nullptr) http_->enter_drain_mode();
  apply_hold();
  log_(LogLevel::kInfo, "drain_mode",
       "drain mode: until the process ends, puts are answered DRAINING and schedules put nothing");
}

/// All or nothing: what may fail comes first, on a copy of the options.
void Server::Impl::reload() {
  Result<ServerOptions> read = reload_.read ? reload_.read() : Result<ServerOptions>(options_);
  const auto fail = [this](const Error& error) {
    log_(LogLevel::kError, "reload_failed", "nothing is changed: " + error.message);
  };
  if (!read) return fail(read.error());
  ServerOptions changed = options_;
  for (const Option& option : option_table()) {
    if (option.live) option.copy(*read, changed);
  }
  if (Result<void> checked = check_options(changed); !checked) return fail(checked.error());
  Result<Change> change = prepare(changed);
  if (!change) return fail(change.error());
  const std::uint64_t count = take_over(*read);
  apply_limits();
  backups_->set_folder(options_.backup_folder);
  apply(std::move(*change));
  apply_hold();
  warn_of_open_ports();
  if (reload_.applied) reload_.applied(options_);
  request_turn();  // A limit that held somebody up may be higher now.
  log_(LogLevel::kInfo, "reload",
       fmt::format("the configuration was read again: {} changed", count), {{"changed", count}});
}

/// Takes over those options that may change now, and returns how many have.
std::uint64_t Server::Impl::take_over(const ServerOptions& read) {
  std::uint64_t count = 0;
  for (const Option& option : option_table()) {
    const std::string before = option.value(options_);
    const std::string after = option.value(read);
    if (before == after) continue;
    if (!option.live) {
      log_(LogLevel::kWarning, "needs_restart",
           fmt::format("{} is {} until a restart, then {}", option.name, before, after),
           {{"option", option.name}, {"before", before}, {"after", after}});
      continue;
    }
    ++count;
    option.copy(read, options_);
    log_(LogLevel::kInfo, "option_changed",
         fmt::format("{} was {} and is {}", option.name, before, after),
         {{"option", option.name}, {"before", before}, {"after", after}});
  }
  return count;
}

void Server::Impl::stop() {
  if (phase_ != Phase::kServing) {
    log_(LogLevel::kWarning, "stop_again", "told to stop again: ending at once");
    end(false);
    return;
  }
  notify_supervisor("STOPPING=1");
  log_(LogLevel::kInfo, "stopping",
       fmt::format("stopping: {}", connections_in_words(connection_count())),
       {{"connections", connection_count()}});
  phase_ = Phase::kDraining;
  for (const auto& listener : listeners_) listener->close();
  connections_.for_each([](Connection& connection) { connection.end_input(); });
  if (http_ != nullptr) http_->stop();
  if (webhooks_) (*webhooks_)->stop();
  drain_until_ = clock_.now() + options_.drain_timeout;
  wait_for_drain(options_.drain_timeout);
  request_turn();
}

void Server::Impl::on_drain_timeout() {
  if (phase_ == Phase::kDraining) {
    log_(LogLevel::kWarning, "drain_timeout",
         fmt::format("drain-timeout: {} did not take their answers",
                     connections_in_words(connection_count())),
         {{"connections", connection_count()}});
    connections_.clear();
    if (http_ != nullptr) http_->close_all();
    if (webhooks_) (*webhooks_)->close();
    request_turn();
  } else {
    log_(LogLevel::kError, "drain_timeout",
         "drain-timeout: the last commit did not end; a start will recover");
    end(false);
  }
}

void Server::Impl::go_on_stopping() {
  if (phase_ == Phase::kDraining && connection_count() == 0 && webhooks_are_idle()) {
    phase_ = Phase::kCheckpoint;
    if (webhooks_) (*webhooks_)->close();
    partitions_.group->begin_stop();
    wait_for_drain(std::max<Span>(drain_until_ - clock_.now(), kLastCheckpoint));
  } else if (phase_ == Phase::kCheckpoint && partitions_.group->stopped()) {
    end(true);
  }
}

void Server::Impl::wait_for_drain(Span at_most) {
  drain_timer_.expires_after(at_most);
  // Its handler may be on the way already when the timer is set anew for the next phase.
  drain_timer_.async_wait([this, phase = phase_](const boost::system::error_code& error) {
    if (!error && phase == phase_) on_drain_timeout();
  });
}

void Server::Impl::end(bool clean) {
  phase_ = Phase::kEnded;
  clean_ = clean;
  loop_.stop();
}

std::vector<std::pair<std::string_view, std::uint64_t>> Server::Impl::limits() const {
  const auto ms = [](Span span) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(span).count());
  };
  return {{"max_job_size", options_.max_job_size},
          {"max_connections", max_connections_},
          {"max_jobs_in_memory", options_.max_jobs_in_memory},
          {"body_budget_size", options_.body_budget},
          {"horizon_ms", ms(options_.horizon)},
          {"http_max_body_size", options_.http_max_body},
          {"http_max_bodies_size", options_.http_max_bodies}};
}

void Server::Impl::describe(protocol::beanstalk::ServerStats& stats) const {
  describe_process(stats);
  stats.current_connections = connections_.size();
  stats.total_connections = total_connections_;
  if (http_ != nullptr) {
    stats.http_connections = http_->size();
    stats.http_waiting = http_->waiting();
  }
  stats.version = version();
  stats.uptime_s =
      std::chrono::duration_cast<std::chrono::seconds>(clock_.now() - started_at_).count();
  stats.binlog_records_written = options_.memory ? 0 : partitions_.group->totals().mutations;
  stats.id = process_id_;
}

// The outside.

std::string_view version() noexcept { return CARILLON_VERSION; }

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Log log) {
  if (Result<void> checked = check_options(options); !checked) return std::move(checked).error();
  auto impl = std::make_unique<Impl>(options, std::move(log));
  if (Result<void> started = impl->start(); !started) return std::move(started).error();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::vector<Endpoint> Server::endpoints() const { return impl_->endpoints(); }
std::vector<Endpoint> Server::http_endpoints() const { return impl_->http_endpoints(); }
bool Server::run() { return impl_->run(); }
void Server::request_stop() { impl_->request_stop(); }
void Server::request_drain_mode() { impl_->request_drain_mode(); }
void Server::request_reload() { impl_->request_reload(); }
void Server::back_up(std::string name, BackupDone done) {
  impl_->back_up(std::move(name), std::move(done));
}
void Server::reload_by(Reload reload) { impl_->reload_by(std::move(reload)); }

}  // namespace carillon::server
