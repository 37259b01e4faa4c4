/* Messages in C: a storage node sends numbers, a compute node sums them up where they arrive. Both
 * nodes are in one thread, which never waits: it submits, polls and drives the rack in turn.
 * Exits with 1 if the sum is not as it should be. */

#include <rackweave.h>

#include <stdio.h>
#include <stdlib.h>

enum { COLUMN = 1, ROWS = 100000 };

/* What is only not there yet is no failure. */
static int is_done(rackweave_status status, const char *what) {
  if (status == RACKWEAVE_STATUS_PENDING) return 0;
  if (status != RACKWEAVE_STATUS_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, rackweave_status_text(status),
            rackweave_error_detail());
    exit(1);
  }
  return 1;
}

int main(int argc, char **argv) {
  rackweave_rack *rack = NULL;
  uint16_t storage = 0, compute = 0;
  /* A rack in this process; with an argument, the running rack of that configuration. */
  is_done(argc > 1 ? rackweave_rack_join(argv[1], "storage0,compute0", &rack)
                   : rackweave_rack_create(NULL, &rack),
          "rack");
  is_done(rackweave_rack_node_by_name(rack, "storage0", &storage), "node");
  is_done(rackweave_rack_node_by_name(rack, "compute0", &compute), "node");

  /* The storage node listens at a free port, the compute node dials there. */
  rackweave_listener *listener = NULL;
  char address[64];
  is_done(rackweave_listener_create(rack, storage, "127.0.0.1:0", NULL, &listener), "listen");
  is_done(rackweave_listener_address(listener, address, sizeof address, NULL), "address");
  rackweave_connection *near = NULL, *far = NULL;
  is_done(rackweave_connection_submit_dial(rack, compute, address, NULL, 10000000000u, &near),
          "dial");
  int is_near = 0, is_far = 0;
  while (!is_near || !is_far) {
    if (!is_near) is_near = is_done(rackweave_connection_poll(near), "connect");
    if (!is_far) is_far = is_done(rackweave_listener_try_accept(listener, &far), "accept");
    rackweave_rack_drive(rack, NULL);
  }
  rackweave_sender *sender = NULL;
  rackweave_receiver *receiver = NULL;
  is_done(rackweave_sender_create(far, 0, &sender), "sender");
  is_done(rackweave_receiver_create(near, 0, &receiver), "receiver");

  int64_t *values = malloc(ROWS * sizeof *values);
  if (values == NULL) return 1;
  int64_t expected = 0, sum = 0;
  for (size_t row = 0; row < ROWS; row++) {
    values[row] = (int64_t)(row * 7 % 1000);
    expected += values[row];
  }

  /* The message is longer than a receive buffer, so it goes in pieces: whoever can, goes on. */
  const uint8_t *bytes = (const uint8_t *)values;
  size_t length = ROWS * sizeof *values, written = 0;
  is_done(rackweave_sender_begin(sender, COLUMN, length), "begin");
  rackweave_piece piece = {0};
  while (!piece.last) {
    if (written < length) {
      size_t count = 0;
      is_done(rackweave_sender_write(sender, bytes + written, length - written, &count),
              "write");
      written += count;
    }
    is_done(rackweave_sender_poll(sender), "send");
    if (is_done(rackweave_receiver_try_peek(receiver, &piece), "receive")) {
      /* Pieces begin at multiples of 32 bytes: values can be read where they lie. */
      const int64_t *arrived = (const int64_t *)(const void *)piece.bytes;
      for (size_t at = 0; at < piece.length / sizeof *arrived; at++) sum += arrived[at];
      is_done(rackweave_receiver_release(receiver), "release");
    }
    rackweave_rack_drive(rack, NULL);
  }
  printf("%d rows, sum %lld\n", ROWS, (long long)sum);

  /* Handles may go in any order; the rack ends with the last of them. */
  free(values);
  rackweave_rack_destroy(rack);
  rackweave_listener_destroy(listener);
  rackweave_sender_destroy(sender);
  rackweave_receiver_destroy(receiver);
  rackweave_connection_destroy(near);
  rackweave_connection_destroy(far);
  return sum == expected ? 0 : 1;
}
