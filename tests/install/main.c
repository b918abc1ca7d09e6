/* SPDX-License-Identifier: Apache-2.0 */
/* The same in C: it links with what is installed, and nothing else. */
#include <stdio.h>

#include "carillon/timer/carillon_c.h"

static void brewed(void* drink) { printf("%s is ready\n", (const char*)drink); }

int main(void) {
  carillon_timer* timer = NULL;
  if (carillon_timer_create(NULL, &timer) != CARILLON_OK) return 1;
  char tea[] = "tea";
  carillon_status status = carillon_after(timer, 1 * CARILLON_MS, brewed, NULL, tea, NULL);
  if (status == CARILLON_OK) status = carillon_drain(timer, 60 * CARILLON_S, NULL);
  carillon_timer_destroy(timer);
  return status == CARILLON_OK ? 0 : 1;
}
