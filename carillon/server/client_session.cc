// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/client_session.h"

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/protocol/beanstalk/encoder.h"

namespace carillon::server {
namespace {

namespace beanstalk = protocol::beanstalk;
using beanstalk::CommandName;
using beanstalk::Refusal;
using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;

/// Slots whose memory an idle session may keep.
constexpr std::size_t kKeepSlots = 16;
/// Written slots and parsed bytes are dropped from the front in pieces of at least this many.
constexpr std::size_t kDropSlotsFrom = 1024;
constexpr std::size_t kDropBytesFrom = 32 * 1024;

constexpr Span seconds(std::uint32_t count) noexcept { return std::chrono::seconds(count); }

constexpr std::uint64_t bit(std::size_t partition) noexcept {
  return std::uint64_t{1} << partition;
}

/// Whether the answer may be a job, whose size nobody knows yet.
constexpr bool brings_body(CommandName name) noexcept {
  switch (name) {
    case CommandName::kReserve:
    case CommandName::kReserveWithTimeout:
    case CommandName::kReserveJob:
    case CommandName::kPeek:
    case CommandName::kPeekReady:
    case CommandName::kPeekDelayed:
    case CommandName::kPeekBuried: return true;
    default: return false;
  }
}

/// Calls `visit` with each member of the set.
template <class Visit>
void for_each(std::uint64_t set, Visit visit) {
  for (; set != 0; set &= set - 1) visit(static_cast<std::size_t>(__builtin_ctzll(set)));
}

}  // namespace

ClientSession::ClientSession(broker::SessionId id, SessionContext& context, OutputBuffer& output)
    : id_(id),
      context_(context),
      output_(output),
      // Of who has not logged in no body is kept.
      parser_(context.logins ? 0 : context.max_job_size),
      needs_login_(context.logins.has_value()) {
  CARILLON_CHECK(context.partitions.count() <= kMaxPartitions, context.partitions.count());
  context_.partitions.open_session(id_);
  // Nobody waits for these two replies.
  const std::size_t partition = partition_of_tube(used_, context_.partitions.count());
  for (const Verb verb : {Verb::kUse, Verb::kWatch}) {
    Command first = command(verb, 0);
    first.tube = used_;
    context_.partitions.submit(partition, std::move(first));
  }
}

ClientSession::~ClientSession() {
  context_.partitions.close_session(id_);
  if (producer_) --context_.producers;
  if (worker_) --context_.workers;
  if (waiting_slot_ != 0) --context_.waiting;
}

// Input.

void ClientSession::receive(std::string_view bytes) {
  if (kept_size() == 0) bytes = parse(bytes);
  if (quit_ || bytes.empty()) return;
  if (kept_from_ >= kDropBytesFrom) {
    kept_.erase(0, kept_from_);
    kept_from_ = 0;
  }
  kept_ += bytes;
}

void ClientSession::end_input() {
  input_ended_ = true;
  if (waiting_slot_ != 0) end_waiting(watched_partitions() | held_in_);
}

void ClientSession::resume() {
  if (!can_resume()) return;
  const std::string_view left = parse(std::string_view(kept_).substr(kept_from_));
  kept_from_ = kept_.size() - left.size();
  if (quit_ || left.empty()) {
    std::string().swap(kept_);
    kept_from_ = 0;
  }
}

bool ClientSession::wants_input() const noexcept {
  if (input_ended_ || quit_) return false;
  if (waiting_slot_ != 0 || settling_slot_ != 0) return kept_size() < kReadAhead;
  return kept_size() == 0 && can_parse();
}

std::span<char> ClientSession::body_room() {
  return kept_size() == 0 && can_parse() ? parser_.body_room() : std::span<char>();
}

void ClientSession::body_filled(std::size_t count) noexcept { parser_.body_filled(count); }

bool ClientSession::can_parse() const noexcept {
  return waiting_slot_ == 0 && settling_slot_ == 0 && !quit_ &&
         slots_.size() - first_ < context_.limits.max_unanswered &&
         unanswered_bytes_ < context_.limits.max_unanswered_bytes &&
         output_.size() + coming_bytes_ < context_.limits.max_unsent_bytes;
}

/// Performs what it can of `bytes` and returns the rest.
std::string_view ClientSession::parse(std::string_view bytes) {
  Request request;
  const std::size_t before = output_.size();
  std::size_t work = 0;
  while (can_parse() && output_.size() < before + kTurnBytes && work < kTurnWork &&
         parser_.next(bytes, request)) {
    work += work_of(request.name);
    perform(request);
  }
  return bytes;
}

/// Of a command, against kTurnWork; most take about the same.
std::size_t ClientSession::work_of(CommandName name) const noexcept {
  switch (name) {
    case CommandName::kReserve:
    case CommandName::kReserveWithTimeout:
    case CommandName::kWatch:
    case CommandName::kIgnore: return 1 + watched_.size() / 8;  // They go through all of them.
    default: return 1;
  }
}

void ClientSession::perform(Request& request) {
  if (request.name == CommandName::kLogin && !context_.logins) {
    request.name = CommandName::kNone;
    request.refusal = Refusal::kUnknownCommand;
  }
  if (context_.logins && (take_login(request) || !admits(request))) return;
  ++context_.commands[static_cast<std::size_t>(request.name)];
  if (request.name == CommandName::kPut && !std::exchange(producer_, true)) ++context_.producers;
  if (request.refusal) {
    std::string text;
    beanstalk::encode(*request.refusal, text);
    answer_here(request.name, text);
    if (*request.refusal == Refusal::kOtherProtocol) quit_ = true;
    return;
  }
  switch (request.name) {
    case CommandName::kPut: put(request); return;
    case CommandName::kReserve:
    case CommandName::kReserveWithTimeout: reserve(request); return;
    case CommandName::kReserveJob: ask_by_job(Verb::kReserveJob, request); return;
    case CommandName::kDelete: ask_by_job(Verb::kDelete, request); return;
    case CommandName::kRelease: ask_by_job(Verb::kRelease, request); return;
    case CommandName::kBury: ask_by_job(Verb::kBury, request); return;
    case CommandName::kTouch: ask_by_job(Verb::kTouch, request); return;
    case CommandName::kKickJob: ask_by_job(Verb::kKickJob, request); return;
    case CommandName::kPeek: ask_by_job(Verb::kPeek, request); return;
    case CommandName::kStatsJob: ask_by_job(Verb::kStatsJob, request); return;
    case CommandName::kKick: ask_by_tube(Verb::kKick, request, used_); return;
    case CommandName::kPeekReady: ask_by_tube(Verb::kPeekReady, request, used_); return;
    case CommandName::kPeekDelayed: ask_by_tube(Verb::kPeekDelayed, request, used_); return;
    case CommandName::kPeekBuried: ask_by_tube(Verb::kPeekBuried, request, used_); return;
    case CommandName::kStatsTube: ask_by_tube(Verb::kStatsTube, request, request.tube); return;
    case CommandName::kPauseTube: ask_by_tube(Verb::kPauseTube, request, request.tube); return;
    case CommandName::kStats: ask_all(Verb::kStats, request.name); return;
    case CommandName::kListTubes: ask_all(Verb::kListTubes, request.name); return;
    case CommandName::kUse: use(request); return;
    case CommandName::kWatch: watch(request); return;
    case CommandName::kIgnore: ignore(request); return;
    case CommandName::kListTubesWatched: answer_watched(); return;
    case CommandName::kListTubeUsed: {
      std::string text;
      beanstalk::encode_using(used_, text);
      answer_here(request.name, text);
      return;
    }
    case CommandName::kQuit: quit_ = true; return;
    case CommandName::kLogin:
    case CommandName::kNone: break;
  }
  CARILLON_CHECK(false, "a request without a name or a refusal");
}

// Commands.

void ClientSession::put(Request& request) {
  if (context_.draining) {
    std::string text;
    beanstalk::encode_draining(text);
    answer_here(request.name, text);
    return;
  }
  open_slot(request.name, request.body.size());
  Command put = command(Verb::kPut, last_slot());
  put.tube = used_;
  put.priority = request.priority;
  put.delay = seconds(request.delay_s);
  put.ttr = seconds(request.ttr_s);
  put.body = std::move(request.body);
  context_.partitions.submit(partition_of_tube(used_, context_.partitions.count()), std::move(put));
}

void ClientSession::reserve(const Request& request) {
  if (!std::exchange(worker_, true)) ++context_.workers;
  // Where it holds jobs is asked too: their safety margin ends the wait.
  const std::uint64_t partitions = watched_partitions() | held_in_;
  Slot& slot = open_slot(request.name);
  const std::uint64_t number = last_slot();
  if ((partitions & (partitions - 1)) != 0) {
    slot.gathering = std::make_unique<Gathering>();
    slot.gathering->outstanding = partitions;
  }
  waiting_slot_ = number;
  ++context_.waiting;
  for_each(partitions, [&](std::size_t partition) {
    if (waiting_slot_ != number) return;  // Granted by an earlier one already.
    Command reserve = command(Verb::kReserve, number);
    reserve.tubes_in_turn = context_.tubes_in_turn;
    if (request.name == CommandName::kReserveWithTimeout) {
      reserve.timeout = seconds(request.timeout_s);
    }
    context_.partitions.submit(partition, std::move(reserve));
  });
  if (waiting_slot_ != number) return;
  if (!context_.partitions.may_wait(id_)) {
    wait_is_over();
  } else if (input_ended_) {
    end_waiting(partitions);
  }
}

void ClientSession::use(const Request& request) {
  std::string text;
  beanstalk::encode_using(request.tube, text);
  if (request.tube == used_) {
    answer_here(request.name, text);
    return;
  }
  Slot& slot = open_slot(request.name);
  slot.extra = std::make_unique<Extra>();
  slot.extra->text = std::move(text);
  slot.extra->tube = request.tube;
  slot.extra->earlier_tube = std::exchange(used_, std::string(request.tube));
  settle_first(last_slot());
  Command use = command(Verb::kUse, last_slot());
  use.tube = used_;
  context_.partitions.submit(partition_of_tube(used_, context_.partitions.count()), std::move(use));
}

/// Holds what follows until the partition has agreed. A single partition answers inside the call.
void ClientSession::settle_first(std::uint64_t number) {
  if (context_.partitions.count() > 1) settling_slot_ = number;
}

void ClientSession::watch(const Request& request) {
  const bool known = std::find(watched_.begin(), watched_.end(), request.tube) != watched_.end();
  std::string text;
  beanstalk::encode_watching(watched_.size() + (known ? 0 : 1), text);
  if (known) {
    answer_here(request.name, text);
    return;
  }
  if (watched_.size() >= context_.limits.max_watched_tubes) {
    std::string refusal;
    beanstalk::encode(Refusal::kOutOfMemory, refusal);
    answer_here(request.name, refusal);
    return;
  }
  watched_.emplace_back(request.tube);
  Slot& slot = open_slot(request.name);
  slot.extra = std::make_unique<Extra>();
  slot.extra->text = std::move(text);
  slot.extra->tube = request.tube;
  settle_first(last_slot());
  Command watch = command(Verb::kWatch, last_slot());
  watch.tube = request.tube;
  context_.partitions.submit(partition_of_tube(request.tube, context_.partitions.count()),
                             std::move(watch));
}

void ClientSession::ignore(const Request& request) {
  const auto found = std::find(watched_.begin(), watched_.end(), request.tube);
  std::string text;
  if (found == watched_.end()) {
    beanstalk::encode_watching(watched_.size(), text);
    answer_here(request.name, text);
    return;
  }
  if (watched_.size() == 1) {
    beanstalk::encode_not_ignored(text);
    answer_here(request.name, text);
    return;
  }
  watched_.erase(found);
  beanstalk::encode_watching(watched_.size(), text);
  Slot& slot = open_slot(request.name);
  slot.extra = std::make_unique<Extra>();
  slot.extra->text = std::move(text);
  Command ignore = command(Verb::kIgnore, last_slot());
  ignore.tube = request.tube;
  context_.partitions.submit(partition_of_tube(request.tube, context_.partitions.count()),
                             std::move(ignore));
}

void ClientSession::answer_watched() {
  std::string text;
  beanstalk::encode(watched_, text);
  answer_here(CommandName::kListTubesWatched, text);
}

void ClientSession::ask_by_job(Verb verb, const Request& request) {
  open_slot(request.name);
  Command ask = command(verb, last_slot());
  ask.id = request.id;
  ask.priority = request.priority;
  ask.delay = seconds(request.delay_s);
  context_.partitions.submit(partition_of_job(request.id, context_.partitions.count()),
                             std::move(ask));
}

void ClientSession::ask_by_tube(Verb verb, const Request& request, std::string_view tube) {
  open_slot(request.name);
  Command ask = command(verb, last_slot());
  ask.tube = tube;
  ask.count = request.count;
  ask.delay = seconds(request.delay_s);
  context_.partitions.submit(partition_of_tube(tube, context_.partitions.count()), std::move(ask));
}

void ClientSession::ask_all(Verb verb, CommandName name) {
  const std::size_t count = context_.partitions.count();
  Slot& slot = open_slot(name);
  const std::uint64_t number = last_slot();
  slot.gathering = std::make_unique<Gathering>();
  slot.gathering->outstanding = ~std::uint64_t{0} >> (kMaxPartitions - count);
  slot.gathering->names.resize(count);
  for (std::size_t partition = 0; partition < count; ++partition) {
    context_.partitions.submit(partition, command(verb, number));
  }
}

// Slots.

/// `bytes`: of the body that came with the command.
ClientSession::Slot& ClientSession::open_slot(CommandName name, std::uint32_t bytes) {
  Slot& slot = slots_.emplace_back();
  slot.name = name;
  slot.bytes = brings_body(name) ? context_.max_job_size : bytes;
  unanswered_bytes_ += slot.bytes;
  slot.document = static_cast<std::uint32_t>(document_bytes(name));
  coming_bytes_ += slot.document;
  return slot;
}

/// How large an answer of the partitions is taken to be, until it is written.
std::size_t ClientSession::document_bytes(CommandName name) const noexcept {
  switch (name) {
    case CommandName::kStats:
    case CommandName::kStatsJob:
    case CommandName::kStatsTube: return kDocumentBytes;
    case CommandName::kListTubes: return context_.limits.max_unsent_bytes;
    default: return 0;
  }
}

/// The slot if it still waits for (more of) its answer.
ClientSession::Slot* ClientSession::unanswered(std::uint64_t number) noexcept {
  if (number < slots_from_ + first_) return nullptr;
  CARILLON_CHECK(number <= last_slot(), "slot ", number, " of session ", id_, ", which has used ",
                 last_slot());
  Slot& slot = slots_[number - slots_from_];
  return slot.answered ? nullptr : &slot;
}

/// Answers a command that no partition is needed for, when its turn comes.
void ClientSession::answer_here(CommandName name, std::string_view text) {
  if (!has_unanswered()) {
    output_.text() += text;
    return;
  }
  Slot& slot = slots_.emplace_back();
  slot.name = name;
  slot.answered = slot.answered_by_text = true;
  slot.extra = std::make_unique<Extra>();
  slot.extra->text = text;
  slot.document = static_cast<std::uint32_t>(text.size());
  coming_bytes_ += slot.document;
}

Command ClientSession::command(Verb verb, std::uint64_t slot) const {
  Command command;
  command.verb = verb;
  command.ticket = {id_, slot};
  return command;
}

void ClientSession::complete(std::uint64_t number, Reply reply) {
  Slot& slot = slots_[number - slots_from_];
  slot.answered = true;
  if (number == waiting_slot_) wait_is_over();
  if (number == settling_slot_) settling_slot_ = 0;
  if (slot.name == CommandName::kReserveJob && reply.answer == Answer::kReserved &&
      !std::exchange(worker_, true)) {
    ++context_.workers;
  }
  settle_tubes(slot, reply);
  if (reply.answer == Answer::kReserved) {
    held_in_ |= bit(partition_of_job(reply.id, context_.partitions.count()));
  }
  slot.reply = std::move(reply);
  while (first_ < slots_.size() && slots_[first_].answered) write(slots_[first_++]);
  drop_written();
}

/// Learns from a partition whether a change of the used or watched tubes, which was taken for
/// granted, has been made.
void ClientSession::settle_tubes(Slot& slot, const Reply& reply) {
  if (slot.extra == nullptr || slot.answered_by_text) return;
  slot.answered_by_text = reply.answer == Answer::kUsing || reply.answer == Answer::kWatching;
  if (slot.name == CommandName::kUse) {
    if (!slot.answered_by_text) {
      if (used_ == slot.extra->tube) used_ = slot.extra->earlier_tube;
      return;
    }
    const std::size_t count = context_.partitions.count();
    const std::size_t earlier = partition_of_tube(slot.extra->earlier_tube, count);
    if (earlier != partition_of_tube(used_, count)) {
      context_.partitions.submit(earlier, command(Verb::kUse, 0));  // It uses no tube there.
    }
  } else if (slot.name == CommandName::kWatch && !slot.answered_by_text) {
    const auto found = std::find(watched_.begin(), watched_.end(), slot.extra->tube);
    if (found != watched_.end() && watched_.size() > 1) watched_.erase(found);
  }
}

void ClientSession::write(Slot& slot) {
  unanswered_bytes_ -= slot.bytes;
  coming_bytes_ -= slot.document;
  if (slot.answered_by_text) {
    output_.text() += slot.extra->text;
  } else if (beanstalk::encode(slot.reply, output_.text())) {
    output_.append_body(std::move(slot.reply.body));
    output_.text() += "\r\n";
  }
}

void ClientSession::drop_written() {
  if (first_ == slots_.size()) {
    slots_from_ += slots_.size();
    first_ = 0;
    slots_.clear();
    if (slots_.capacity() > kKeepSlots) std::vector<Slot>().swap(slots_);
  } else if (first_ >= kDropSlotsFrom && first_ >= slots_.size() / 2) {
    slots_.erase(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(first_));
    slots_from_ += first_;
    first_ = 0;
  }
}

bool ClientSession::finished() const noexcept {
  return !has_unanswered() && (quit_ || (input_ended_ && kept_size() == 0));
}

// Replies of partitions.

void ClientSession::on_reply(std::size_t partition, std::uint64_t number, Reply reply) {
  Slot* slot = unanswered(number);
  // An answer that crossed the message that another partition was faster. If it is a grant, that
  // message has taken it back.
  if (slot == nullptr) return;
  if (slot->gathering == nullptr) {
    complete(number, std::move(reply));
  } else if (slot->name == CommandName::kReserve ||
             slot->name == CommandName::kReserveWithTimeout) {
    gather_reserve(partition, number, std::move(reply));
  } else {
    gather_detail(partition, number, std::move(reply));
  }
}

void ClientSession::gather_reserve(std::size_t partition, std::uint64_t number, Reply reply) {
  Gathering& gathering = *slots_[number - slots_from_].gathering;
  gathering.outstanding &= ~bit(partition);
  if (reply.answer == Answer::kTimedOut || reply.answer == Answer::kDeadlineSoon) {
    // DEADLINE_SOON is true only if no other partition has a ready job: ask them to make up their
    // minds.
    if (reply.answer == Answer::kDeadlineSoon && !std::exchange(gathering.deadline_soon, true)) {
      end_waiting(gathering.outstanding);
    }
    if (gathering.outstanding != 0) return;
    reply.answer = gathering.deadline_soon ? Answer::kDeadlineSoon : Answer::kTimedOut;
    complete(number, std::move(reply));
    return;
  }
  for_each(gathering.outstanding, [&](std::size_t other) {
    context_.partitions.submit(other, command(Verb::kCancelReserve, number));
  });
  complete(number, std::move(reply));
}

void ClientSession::gather_detail(std::size_t partition, std::uint64_t number, Reply reply) {
  Gathering& gathering = *slots_[number - slots_from_].gathering;
  gathering.outstanding &= ~bit(partition);
  if (reply.answer != Answer::kStats) {
    complete(number, std::move(reply));  // The first error is the answer.
    return;
  }
  CARILLON_CHECK(reply.detail != nullptr, "statistics without their detail");
  if (auto* names = std::get_if<broker::TubeNames>(reply.detail.get())) {
    gathering.names[partition] = std::move(*names);
  } else {
    const auto& part = std::get<broker::PartitionStats>(*reply.detail);
    beanstalk::ServerStats& stats = gathering.stats;
    stats.jobs.urgent += part.jobs.urgent;
    stats.jobs.ready += part.jobs.ready;
    stats.jobs.reserved += part.jobs.reserved;
    stats.jobs.delayed += part.jobs.delayed;
    stats.jobs.buried += part.jobs.buried;
    stats.job_timeouts += part.timeouts;
    stats.total_jobs += part.total_jobs;
    stats.puts += part.put_count;
    stats.reserves += part.reserve_count;
    stats.deletes += part.delete_count;
    stats.current_tubes += part.tubes;
  }
  if (gathering.outstanding == 0) finish_gathering(number);
}

void ClientSession::finish_gathering(std::uint64_t number) {
  Slot& slot = slots_[number - slots_from_];
  slot.extra = std::make_unique<Extra>();
  slot.answered_by_text = true;
  Gathering& gathering = *slot.gathering;
  if (slot.name == CommandName::kStats) {
    beanstalk::ServerStats& stats = gathering.stats;
    stats.commands = context_.commands;
    stats.max_job_size = context_.max_job_size;
    stats.current_producers = context_.producers;
    stats.current_workers = context_.workers;
    stats.current_waiting = context_.waiting;
    stats.draining = context_.draining;
    context_.describe_server(stats);
    beanstalk::encode(stats, slot.extra->text);
  } else {
    broker::TubeNames all;
    for (broker::TubeNames& names : gathering.names) {
      std::move(names.begin(), names.end(), std::back_inserter(all));
    }
    beanstalk::encode(all, slot.extra->text);
  }
  slot.gathering.reset();
  complete(number, {});
}

std::uint64_t ClientSession::watched_partitions() const {
  const std::size_t count = context_.partitions.count();
  if (count == 1) return 1;
  std::uint64_t partitions = 0;
  for (const std::string& tube : watched_) partitions |= bit(partition_of_tube(tube, count));
  return partitions;
}

/// Ends the waiting reserve in each of `partitions`; those that have no part in it do not mind.
void ClientSession::end_waiting(std::uint64_t partitions) {
  for_each(partitions,
           [&](std::size_t partition) { context_.partitions.end_waiting(partition, id_); });
}

void ClientSession::wait_is_over() {
  waiting_slot_ = 0;
  --context_.waiting;
}

}  // namespace carillon::server
