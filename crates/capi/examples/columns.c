/* Columns in C: a storage node serves a column, a compute node fetches it and sums it up. Both nodes
 * are in one thread, which never waits: it submits, polls and drives the rack in turn. Exits with 1
 * if the sum is not as it should be. */

#include <rackweave.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 100000 };

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

  /* What the storage node serves. */
  int64_t *values = malloc(ROWS * sizeof *values);
  if (values == NULL) return 1;
  int64_t expected = 0, sum = 0;
  for (size_t row = 0; row < ROWS; row++) {
    values[row] = (int64_t)(row * 7 % 1000);
    expected += values[row];
  }
  rackweave_column_data numbers = {0};
  numbers.data_type = RACKWEAVE_COLUMN_TYPE_INT64;
  numbers.rows = ROWS;
  numbers.values = (const uint8_t *)values;
  numbers.values_length = ROWS * sizeof *values;
  rackweave_catalogue *catalogue = NULL;
  is_done(rackweave_catalogue_create(rack, 10, &catalogue), "catalogue");
  is_done(rackweave_catalogue_add(catalogue, "numbers", &numbers), "add");
  free(values);

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
  rackweave_column_server *server = NULL;
  rackweave_column_reader *reader = NULL;
  is_done(rackweave_column_server_create(far, catalogue, &server), "server");
  is_done(rackweave_column_reader_create(near, &reader), "reader");

  rackweave_column *column = NULL;
  uint64_t asked = 0, came = 0;
  is_done(rackweave_column_reader_submit(reader, "numbers", &asked), "ask");
  while (!is_done(rackweave_column_reader_poll(reader, &came, &column), "fetch")) {
    is_done(rackweave_column_server_poll(server), "serve");
    rackweave_rack_drive(rack, NULL);
  }

  /* A column stays when everything else is gone. Handles may go in any order. */
  rackweave_column_reader_destroy(reader);
  rackweave_column_server_destroy(server);
  rackweave_connection_destroy(near);
  rackweave_connection_destroy(far);
  rackweave_listener_destroy(listener);
  rackweave_catalogue_destroy(catalogue);
  rackweave_rack_destroy(rack);
  rackweave_column_data data = {0};
  is_done(rackweave_column_get_data(column, &data), "data");
  const int64_t *arrived = (const int64_t *)(const void *)data.values;
  for (uint64_t row = 0; row < data.rows; row++) sum += arrived[row];
  printf("%llu rows, sum %lld\n", (unsigned long long)data.rows, (long long)sum);
  rackweave_column_destroy(column);
  return asked == came && sum == expected ? 0 : 1;
}
