/* SPDX-License-Identifier: Apache-2.0 */
/* A Timer in C: tries again after a delay that doubles, with a heartbeat meanwhile. */

#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "carillon/timer/carillon_c.h"

struct connection {
  carillon_timer* timer;
  int attempts;
  int64_t delay_ns;
  sem_t done;
};

static void on_retry(void* argument) {
  struct connection* connection = argument;
  printf("attempt %d\n", ++connection->attempts);
  if (connection->attempts == 4) {
    sem_post(&connection->done);
    return;
  }
  connection->delay_ns *= 2;
  carillon_after(connection->timer, connection->delay_ns, on_retry, NULL, connection, NULL);
}

static void on_beat(void* beats) { ++*(long*)beats; }

static void on_expired(void* name) { printf("%s expired\n", (const char*)name); }

int main(void) {
  carillon_options options = CARILLON_OPTIONS_INIT;
  options.max_pending = 1000;
  struct connection connection = {NULL, 0, 1 * CARILLON_MS, {{0}}};
  sem_init(&connection.done, 0, 0);
  carillon_status status = carillon_timer_create(&options, &connection.timer);
  if (status != CARILLON_OK) {
    fprintf(stderr, "no timer: %s\n", carillon_status_text(status));
    return 1;
  }

  /* The argument is freed when the callback can no longer run. */
  long* beats = calloc(1, sizeof(*beats));
  carillon_handle heartbeat;
  carillon_every(connection.timer, 1 * CARILLON_MS, CARILLON_REPEAT_SKIP, on_beat, free, beats,
                 &heartbeat);

  char session[] = "session";
  carillon_handle expiry;
  carillon_after(connection.timer, 3600 * CARILLON_S, on_expired, NULL, session, &expiry);

  on_retry(&connection); /* again after 2, 4 and 8 ms */
  sem_wait(&connection.done);

  printf("cancel: %s\n", carillon_status_text(carillon_cancel(&expiry)));
  printf("again: %s\n", carillon_status_text(carillon_cancel(&expiry)));

  carillon_stop(connection.timer, NULL);
  carillon_stats stats = {.size = sizeof(stats)};
  carillon_get_stats(connection.timer, &stats);
  printf("pending: %" PRIu64 "\n", stats.pending);
  carillon_timer_destroy(connection.timer);
  sem_destroy(&connection.done);
  return 0;
}
