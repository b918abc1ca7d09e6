/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * \file
 * The Timer for C, and for what calls C: timer.h, whose contract holds, with functions.
 *
 *     carillon_timer* timer;
 *     carillon_handle retry;
 *     if (carillon_timer_create(NULL, &timer) != CARILLON_OK) ...
 *     carillon_after(timer, 250 * CARILLON_MS, on_retry, NULL, session, &retry);
 *     carillon_cancel(&retry);
 *     carillon_timer_destroy(timer);
 *
 * C11, or C++. Link it as C++: the library is written in that.
 *
 * Times:    nanoseconds; a point in time is of the Timer's clock, carillon_now(), CLOCK_MONOTONIC
 *           unless the options have another. A deadline is rounded up to the tick; a callback never
 *           begins before it.
 * Threads:  each function may be called from any thread and in a callback, but for
 *           carillon_timer_destroy(), which no other call for the same timer may overlap.
 * Callback: runs on the executor's threads; must return (no longjmp out of it). `argument` is what
 *           was given. `release`, if it is not NULL, is called once with that argument when the
 *           callback can no longer run: after it has run (a periodic one: has ended), has been
 *           cancelled, refused, or stopped. In a cancel, it is called before that returns.
 * Errors:   each function that can fail answers a carillon_status, and then has changed nothing; no
 *           C++ exception leaves the library. A null pointer where none is allowed is
 *           CARILLON_INVALID.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
/* So that a number that is none of them can be told, and is not undefined. */
#define CARILLON_C_ENUM : int
#else
#define CARILLON_C_ENUM
#endif

/* NOLINTBEGIN(readability-identifier-naming): C's habits. */

#define CARILLON_US INT64_C(1000)
#define CARILLON_MS INT64_C(1000000)
#define CARILLON_S INT64_C(1000000000)

typedef enum carillon_status CARILLON_C_ENUM {
  CARILLON_OK = 0,
  /* The argument, or an option, is not one that is allowed. */
  CARILLON_INVALID = 1,
  /* Memory, or a thread, cannot be had. */
  CARILLON_NO_MEMORY = 2,
  /* carillon_options.max_pending timers are pending. */
  CARILLON_LIMIT = 3,
  /* The timer has been stopped, or was made before a fork, in the parent. */
  CARILLON_STOPPED = 4,
  /* The callback has begun and has not returned. A periodic timer does not begin again. */
  CARILLON_RUNNING = 5,
  /* It has run, or was cancelled before, or its Timer is gone, or the handle is of zeros. */
  CARILLON_NOT_FOUND = 6
} carillon_status;

/* What it means, in a few words. Never NULL; static. */
const char* carillon_status_text(carillon_status status);

typedef enum carillon_clock CARILLON_C_ENUM {
  CARILLON_CLOCK_STEADY = 0, /* Stands still while the machine is suspended. */
  CARILLON_CLOCK_BOOT = 1    /* Does not. */
} carillon_clock;

typedef enum carillon_executor CARILLON_C_ENUM {
  CARILLON_EXECUTOR_POOL = 0,  /* `threads` threads of the Timer's own. */
  CARILLON_EXECUTOR_INLINE = 1 /* The thread that drives it: for callbacks that never block. */
} carillon_executor;

/* When a periodic timer is due again; see Repeat in timer.h. */
typedef enum carillon_repeat CARILLON_C_ENUM {
  CARILLON_REPEAT_SKIP = 0,
  CARILLON_REPEAT_BURST = 1,
  CARILLON_REPEAT_DELAY = 2,
  CARILLON_REPEAT_FIXED_DELAY = 3
} carillon_repeat;

/* Zero stands for the default everywhere, so begin with CARILLON_OPTIONS_INIT, which lets later
 * versions add fields too. */
typedef struct carillon_options {
  size_t size;                /* sizeof(carillon_options) */
  int64_t tick_ns;            /* 10 us to 1 h; default 1 ms. */
  carillon_clock clock;       /* Default steady. */
  carillon_executor executor; /* Default a pool. */
  unsigned threads;           /* Of the pool; default 2. */
  size_t queue;               /* Callbacks that wait for a thread of the pool; default 1024. */
  size_t max_pending;         /* Default: no limit but memory. */
  unsigned shards;            /* Default: as many as suit the machine. */
  const char* thread_name;    /* Default "carillon-timer"; copied, 15 characters. */
  int bind_to_cpu;            /* Not 0: the driver runs on `cpu` only. */
  int cpu;
} carillon_options;

#define CARILLON_OPTIONS_INIT \
  {sizeof(carillon_options),  \
   0,                         \
   CARILLON_CLOCK_STEADY,     \
   CARILLON_EXECUTOR_POOL,    \
   0,                         \
   0,                         \
   0,                         \
   0,                         \
   NULL,                      \
   0,                         \
   0}

typedef struct carillon_timer carillon_timer;

/* Names a timer: a value, to be copied and dropped at will. One of zeros names nothing. */
typedef struct carillon_handle {
  uint64_t opaque[3];
} carillon_handle;

typedef void (*carillon_callback)(void* argument);

/* `options` may be NULL: all defaults. Threads are started by the first timer. */
carillon_status carillon_timer_create(const carillon_options* options, carillon_timer** timer);

/* Cancels what is pending, waits for callbacks that are running, and frees the Timer. In a callback
 * of that Timer, it does not wait for that one. NULL: nothing. */
void carillon_timer_destroy(carillon_timer* timer);

/* Runs `callback(argument)` once, `delay_ns` from now; at the next tick if that is not positive.
 * `release` and `handle` may be NULL. If it is refused, the argument has been released. */
carillon_status carillon_after(carillon_timer* timer, int64_t delay_ns, carillon_callback callback,
                               carillon_callback release, void* argument, carillon_handle* handle);

/* The same, at a point in time of carillon_now(). */
carillon_status carillon_at(carillon_timer* timer, int64_t deadline_ns, carillon_callback callback,
                            carillon_callback release, void* argument, carillon_handle* handle);

/* Runs it every `period_ns`, first one period from now, until it is cancelled; never beside
 * itself. */
carillon_status carillon_every(carillon_timer* timer, int64_t period_ns, carillon_repeat repeat,
                               carillon_callback callback, carillon_callback release,
                               void* argument, carillon_handle* handle);

/* CARILLON_OK: it has not run and never will, and its argument has been released. Otherwise
 * CARILLON_RUNNING or CARILLON_NOT_FOUND. Safe at any time, also after the Timer is gone. */
carillon_status carillon_cancel(const carillon_handle* handle);

/* CARILLON_OK: it will fire `delay_ns` from now, and has not fired. Otherwise as carillon_cancel().
 * The handle stays valid. */
carillon_status carillon_reschedule(const carillon_handle* handle, int64_t delay_ns);

/* CARILLON_OK: pending. */
carillon_status carillon_state(const carillon_handle* handle);

/* The Timer's clock. 0 for NULL. */
int64_t carillon_now(const carillon_timer* timer);

/* See TimerStats in timer_stats.h. */
typedef struct carillon_stats {
  size_t size; /* sizeof(carillon_stats), set by the caller. */
  uint64_t pending;
  uint64_t scheduled;
  uint64_t cancelled;
  uint64_t fired;
  uint64_t rejected;
  uint64_t dropped;
  uint64_t slow;
  uint64_t missed;
  uint64_t wakeups;
  uint64_t executor_full;
  uint64_t memory_bytes;
  int64_t lateness_p50_ns; /* Upper bounds, at most twice too high. */
  int64_t lateness_p99_ns;
  int64_t callback_p50_ns;
  int64_t callback_p99_ns;
} carillon_stats;

/* Cheap: takes some locks for nanoseconds. Fills as much as `stats->size` says. */
carillon_status carillon_get_stats(const carillon_timer* timer, carillon_stats* stats);

/* Ends the Timer: cancels all that has not begun, releases its arguments, waits for what is running
 * (unless called by that), and refuses what comes. `unfired`, if it is not NULL: how many were
 * cancelled. A second call finds none. */
carillon_status carillon_stop(carillon_timer* timer, size_t* unfired);

/* Refuses what comes, lets what is pending fire at its time, for `at_most_ns`; then stops. */
carillon_status carillon_drain(carillon_timer* timer, int64_t at_most_ns, size_t* unfired);

/* Hands over nothing until resumed; time goes on. */
carillon_status carillon_pause(carillon_timer* timer);
carillon_status carillon_resume(carillon_timer* timer);

/* NOLINTEND(readability-identifier-naming) */

#undef CARILLON_C_ENUM
#ifdef __cplusplus
}
#endif
