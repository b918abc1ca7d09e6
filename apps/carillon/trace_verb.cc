// SPDX-License-Identifier: Apache-2.0
// carillon trace

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "apps/carillon/json.h"
#include "apps/carillon/option_values.h"
#include "apps/carillon/output.h"
#include "apps/carillon/trace.h"
#include "apps/carillon/trace_drawing.h"
#include "apps/carillon/verbs.h"
#include "carillon/server/units.h"

namespace carillon::app {
namespace {

using namespace std::chrono_literals;

/// More than anybody will read.
constexpr Tick kMostPictures = 10'000;
/// Up to so many ticks, each is drawn.
constexpr Tick kFewTicks = 40;
/// How many pictures between events --play is content with.
constexpr Tick kPlayedPictures = 40;
constexpr Span kLongestTick = 24h;
constexpr Span kLongestDelay = 36'500 * 24h;
constexpr Span kLongestPause = 60s;

struct NamedWheel {
  std::string_view name;
  WheelKind kind;
  Span tick;
  std::string_view title;
};
constexpr std::array<NamedWheel, 8> kWheels = {{
    {"hashed", WheelKind::kHashed, 1s, "a hashed wheel"},
    {"hierarchical", WheelKind::kHierarchical, 1ms, "a hierarchical wheel of 64 slots a level"},
    {"kafka", WheelKind::kKafka, 1ms, "Kafka's levels"},
    {"linux", WheelKind::kLinux, 1ms, "Linux's levels until 2015"},
    {"clock", WheelKind::kClock, 1ms, "the levels of a clock"},
    {"hours", WheelKind::kHours, 1s, "hours, minutes and seconds"},
    {"coarse", WheelKind::kCoarse, 1ms, "a wheel that never cascades"},
    {"kernel", WheelKind::kKernel, 1ms, "Linux's levels since 2015"},
}};

/// What was said on the command line. Empty: nothing.
struct TraceOptions {
  std::string story;
  std::string wheel;
  std::vector<std::string> delays;
  std::string slots;
  std::string tick;
  std::string at;
  std::string step;
  std::string pause = "250ms";
  bool play = false;
  bool json = false;
};

struct Traced {
  TraceSetup setup;
  std::string title;
  /// In ticks; 0 if nothing was said.
  Tick step = 0;
  Span pause{};
};

Error wrong(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

/// A duration, or a time of day: 10:24:30.
Result<Span> parse_time(const std::string& text) {
  if (text.find(':') == std::string::npos) return duration_option("--at", text, 0s, kLongestDelay);
  std::array<unsigned, 3> parts{};
  std::size_t count = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (; count < parts.size() && at != end; ++count) {
    const auto [stop, error] = std::from_chars(at, end, parts[count]);
    if (error != std::errc()) break;
    at = stop;
    if (at != end && *at == ':' && at + 1 != end) ++at;
  }
  if (at != end || count < 2 || parts[0] > 23 || parts[1] > 59 || parts[2] > 59) {
    return wrong(fmt::format("--at: '{}' is not a duration or a time of day (10:24:30)", text));
  }
  return Span(std::chrono::hours(parts[0]) + std::chrono::minutes(parts[1]) +
              std::chrono::seconds(parts[2]));
}

/// The wheel and the timers of a story, or of --wheel.
Result<Traced> begin(const TraceOptions& options) {
  Traced traced;
  if (!options.wheel.empty()) {
    const auto* named = std::find_if(kWheels.begin(), kWheels.end(), [&](const NamedWheel& wheel) {
      return wheel.name == options.wheel;
    });
    if (named == kWheels.end()) {
      std::string names;
      for (const NamedWheel& wheel : kWheels) names += fmt::format(" {}", wheel.name);
      return wrong(fmt::format("--wheel: '{}' is none of{}", options.wheel, names));
    }
    if (options.delays.empty()) return wrong("--delay: at least one is needed with --wheel");
    traced.setup.kind = named->kind;
    traced.setup.tick = named->tick;
    traced.title = named->title;
    return traced;
  }
  for (const TraceStory& story : trace_stories()) {
    if (options.story != std::string(1, story.name)) continue;
    traced.setup = story.setup;
    traced.title = fmt::format("story {}: {}", story.name, story.title);
    return traced;
  }
  return wrong(fmt::format("--story: '{}' is none of a b c", options.story));
}

Result<Traced> read(const TraceOptions& options) {
  Result<Traced> traced = begin(options);
  if (!traced) return traced;
  TraceSetup& setup = traced->setup;
  if (!options.slots.empty()) {
    if (setup.kind != WheelKind::kHashed) return wrong("--slots: only for a hashed wheel");
    auto slots = count_option("--slots", options.slots, 1, Trace::kMostSlots);
    if (!slots) return std::move(slots).error();
    setup.slots = static_cast<std::size_t>(*slots);
  }
  if (!options.tick.empty()) {
    auto tick = duration_option("--tick", options.tick, 1ms, kLongestTick);
    if (!tick) return std::move(tick).error();
    const bool fixed = setup.kind == WheelKind::kClock || setup.kind == WheelKind::kHours;
    if (fixed && *tick != setup.tick) {
      return wrong(fmt::format("--tick: is {} on this wheel", server::format_duration(setup.tick)));
    }
    setup.tick = *tick;
  }
  if (!options.at.empty()) {
    auto start = parse_time(options.at);
    if (!start) return std::move(start).error();
    setup.start = *start;
    setup.time_of_day = options.at.find(':') != std::string::npos;
  }
  if (!options.delays.empty()) setup.delays.clear();
  for (const std::string& text : options.delays) {
    auto delay = duration_option("--delay", text, 0s, kLongestDelay);
    if (!delay) return std::move(delay).error();
    setup.delays.push_back(*delay);
  }
  if (!options.step.empty()) {
    auto step = duration_option("--step", options.step, setup.tick, kLongestDelay);
    if (!step) return std::move(step).error();
    traced->step = static_cast<Tick>(*step / setup.tick);
  }
  auto pause = duration_option("--pause", options.pause, 0s, kLongestPause);
  if (!pause) return std::move(pause).error();
  traced->pause = *pause;
  return traced;
}

/// From when the timers are scheduled until the last has fired.
class Show {
 public:
  Show(Trace& trace, const Traced& traced, bool play)
      : trace_(trace),
        drawing_(trace, traced.setup),
        title_(fmt::format("carillon trace, {}\n\n", traced.title)),
        pause_(traced.pause),
        play_(play),
        step_(traced.step) {
    Tick last = trace.now();
    for (const Trace::Timer& timer : trace.timers()) {
      last = std::max(last, timer.due);
      pictures_ += 2 + (timer.place ? timer.place->rounds + timer.place->level : 0);
    }
    const Tick ticks = last - trace.now();
    if (step_ == 0 && ticks <= kFewTicks) step_ = 1;
    if (step_ == 0 && play) step_ = ticks / kPlayedPictures + 1;
    if (step_ != 0) pictures_ += ticks / step_;
  }

  [[nodiscard]] Tick pictures() const { return pictures_; }

  void run() {
    show({});
    std::vector<std::string> fired;
    while (const std::optional<Tick> event = trace_.next_event()) {
      const Tick target = step_ == 0 ? *event : std::min(*event, trace_.now() + step_);
      const std::vector<Trace::Event> events = trace_.advance(target);
      show(events);
      for (const Trace::Event& e : events) {
        if (e.kind != Trace::Event::Kind::kFires) continue;
        fired.push_back(
            fmt::format("{} at {}", trace_.timers()[e.timer].name, drawing_.time(trace_.now())));
      }
      if (std::ferror(stdout) != 0) return;  // Nobody is looking.
    }
    fmt::print("\nfired: {}\n", fmt::join(fired, ", "));
  }

 private:
  void show(const std::vector<Trace::Event>& events) {
    if (play_) {
      // From the top of the screen, and nothing of the last picture below it.
      fmt::print("\x1b[H\x1b[J{}{}\n{}\n{}{}", title_, drawing_.wheel(), drawing_.timers(),
                 drawing_.heading(), drawing_.picture(events));
      std::fflush(stdout);
      std::this_thread::sleep_for(pause_);
      return;
    }
    if (first_) {
      fmt::print("{}{}\n{}\n{}", title_, drawing_.wheel(), drawing_.timers(), drawing_.heading());
    } else if (drawing_.heading().empty()) {
      fmt::print("\n");
    }
    first_ = false;
    fmt::print("{}", drawing_.picture(events));
  }

  Trace& trace_;
  TraceDrawing drawing_;
  std::string title_;
  Span pause_;
  bool play_;
  Tick step_;
  Tick pictures_ = 1;
  bool first_ = true;
};

/// What happens, a line of JSON each.
void print_events(Trace& trace, Span tick) {
  const auto ms = [tick](Tick at) {
    return std::chrono::ceil<std::chrono::milliseconds>(tick * static_cast<std::int64_t>(at))
        .count();
  };
  const auto line = [&](std::string_view event, const Trace::Timer& timer) {
    JsonLine json;
    json.number("at_ms", ms(trace.now())).text("event", event);
    json.text("timer", std::string(1, timer.name));
    return json;
  };
  for (const Trace::Timer& timer : trace.timers()) {
    JsonLine json = line("scheduled", timer);
    json.number("deadline_ms", ms(timer.deadline)).number("due_ms", ms(timer.due));
    if (timer.place) {
      json.number("level", timer.place->level).number("slot", timer.place->slot);
      json.number("rounds", timer.place->rounds);
    }
    fmt::print("{}\n", json.str());
  }
  while (const std::optional<Tick> next = trace.next_event()) {
    for (const Trace::Event& event : trace.advance(*next)) {
      const bool fires = event.kind == Trace::Event::Kind::kFires;
      JsonLine json = line(fires                                         ? "fires"
                           : event.kind == Trace::Event::Kind::kCascades ? "cascades"
                                                                         : "passes",
                           trace.timers()[event.timer]);
      json.number("from_level", event.from.level).number("from_slot", event.from.slot);
      if (!fires) {
        json.number("level", event.to.level).number("slot", event.to.slot);
        json.number("rounds", event.to.rounds);
      }
      fmt::print("{}\n", json.str());
    }
    if (std::ferror(stdout) != 0) return;  // Nobody is looking.
  }
}

Result<void> run(const TraceOptions& options) {
  Result<Traced> traced = read(options);
  if (!traced) return std::move(traced).error();
  Result<Trace> trace = Trace::create(traced->setup);
  if (!trace) return std::move(trace).error();
  if (options.json) {
    print_events(*trace, traced->setup.tick);
    return {};
  }
  if (options.play && isatty(STDOUT_FILENO) == 0) {
    return wrong("--play: standard output is not a terminal");
  }
  Show show(*trace, *traced, options.play);
  if (show.pictures() > kMostPictures) {
    return wrong(fmt::format(
        "--delay: that would be {} pictures, more than {}: take shorter delays, a longer --step, "
        "or more --slots",
        show.pictures(), kMostPictures));
  }
  show.run();
  return {};
}

}  // namespace

void add_trace(CLI::App& program, int& status, const Connecting& connecting) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* verb = program.add_subcommand(
      "trace", "Draw a wheel turning, in virtual time: a built-in story, or delays of your own");
  CLI::Option* story =
      verb->add_option("--story", options->story,
                       "a: hashed, 8 slots of 1 s; b: 2 h 30 min on hours, minutes and seconds; c: "
                       "Kafka's levels [a]")
          ->type_name("NAME");
  verb->add_option("-w,--wheel", options->wheel,
                   "Another wheel: hashed, hierarchical, kafka, linux, clock, hours, coarse or "
                   "kernel")
      ->type_name("NAME")
      ->excludes(story);
  verb->add_option(
          "-d,--delay", options->delays,
          "A timer of this delay, in place of the story's; may be repeated, up to 26 times")
      ->type_name("TIME")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
  verb->add_option("--slots", options->slots,
                   "Slots of a hashed wheel, rounded up to a power of two [8]")
      ->type_name("N");
  verb->add_option("--tick", options->tick, "Length of a tick [1s for hashed and hours, else 1ms]")
      ->type_name("TIME");
  verb->add_option("--at", options->at,
                   "When they are scheduled: where the hands are then; 5s, or 10:24:30 [2s in "
                   "story a, else 0s]")
      ->type_name("TIME");
  verb->add_option("--step", options->step,
                   "Draw at least this often [each of up to 40 ticks, else when something happens]")
      ->type_name("TIME");
  CLI::Option* play = verb->add_flag("--play", options->play,
                                     "Let it run, one picture over the other, on a terminal");
  verb->add_flag("--json", options->json, "No pictures, but a line of JSON for all that happens")
      ->excludes(play);
  verb->add_option("--pause", options->pause, "How long each picture of --play stands")
      ->capture_default_str()
      ->type_name("TIME");
  verb->callback([options, &status, &connecting] {
    if (connecting.said()) {
      print_long_error(fmt::format("carillon trace: {}", kForOtherVerbs));
      status = kUsage;
      return;
    }
    if (options->story.empty() && options->wheel.empty()) options->story = "a";
    if (const Result<void> result = run(*options); !result) {
      print_long_error(fmt::format("carillon trace: {}", result.error().message));
      status = kUsage;
    }
  });
}

}  // namespace carillon::app
