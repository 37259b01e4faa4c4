/* Everything that a program can do wrong with handles and sizes: statuses, never a crash. */

#include <rackweave.h>

#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int line, rackweave_status found, rackweave_status expected) {
  if (found != expected) {
    fprintf(stderr, "line %d: %s where %s is due: %s\n", line, rackweave_status_text(found),
            rackweave_status_text(expected), rackweave_error_detail());
    failures++;
  }
}

#define EXPECT(call, name) expect(__LINE__, call, RACKWEAVE_STATUS_##name)

static void racks(void) {
  rackweave_rack *rack = NULL;
  EXPECT(rackweave_rack_create(NULL, NULL), NULL_POINTER);
  EXPECT(rackweave_rack_create("nodes = 3", &rack), BAD_CONFIG);
  EXPECT(rackweave_rack_create("\xff", &rack), BAD_ARGUMENT);
  EXPECT(rackweave_rack_create("[hosted]\n", &rack), BAD_CONFIG);
  EXPECT(rackweave_rack_create_from_file("/no/such/file.toml", &rack), BAD_CONFIG);
  EXPECT(rackweave_rack_create_from_file(NULL, &rack), NULL_POINTER);
  EXPECT(rackweave_rack_join("/no/such/file.toml", "compute0", &rack), BAD_CONFIG);
  EXPECT(rackweave_rack_join(NULL, NULL, &rack), NULL_POINTER);
  char text[8];
  size_t length = 0;
  EXPECT(rackweave_error_detail_copy(text, sizeof text, &length), TOO_LONG);
  if (strlen(text) != 7 || length < 8) failures++;
  EXPECT(rackweave_error_detail_copy(NULL, 4, NULL), NULL_POINTER);
  if (rackweave_status_text(12345) != NULL || rackweave_status_text(-1) != NULL) failures++;

  EXPECT(rackweave_rack_create(NULL, &rack), OK);
  uint16_t node = 0;
  EXPECT(rackweave_rack_node_by_name(rack, "nobody", &node), NOT_FOUND);
  EXPECT(rackweave_rack_node_by_name(rack, NULL, &node), NULL_POINTER);
  EXPECT(rackweave_rack_node_by_name(NULL, "compute0", &node), NULL_POINTER);
  EXPECT(rackweave_rack_node_name(rack, 999, text, sizeof text, NULL), NOT_FOUND);
  EXPECT(rackweave_rack_node_name(rack, 0, text, 2, NULL), TOO_LONG);
  rackweave_rack *copy = rack;
  EXPECT(rackweave_rack_destroy(rack), OK);
  EXPECT(rackweave_rack_destroy(copy), BAD_HANDLE);
  EXPECT(rackweave_rack_node_count(copy, &node), BAD_HANDLE);
  EXPECT(rackweave_rack_destroy(NULL), OK);
  /* An address that never was a handle, and numbers that look like one. */
  int no_handle = 0;
  EXPECT(rackweave_rack_node_count((rackweave_rack *)(void *)&no_handle, &node), BAD_HANDLE);
  for (uintptr_t number = 1; number < 70000; number += 7) {
    rackweave_status status = rackweave_rack_drive((rackweave_rack *)number, NULL);
    if (status != RACKWEAVE_STATUS_BAD_HANDLE) failures++;
  }
}

static void regions(rackweave_rack *rack) {
  rackweave_region *region = NULL;
  uint8_t bytes[64] = {0};
  EXPECT(rackweave_region_create(rack, 77, 4096, 0, &region), NOT_FOUND);
  EXPECT(rackweave_region_create(rack, 0, 0, 0, &region), BAD_ARGUMENT);
  EXPECT(rackweave_region_create(rack, 0, 4096, 64, &region), BAD_ARGUMENT);
  EXPECT(rackweave_region_create(rack, 0, UINT64_MAX, 0, &region), BAD_ARGUMENT);
  EXPECT(rackweave_region_create(rack, 0, (uint64_t)1 << 50, 0, &region), NO_ROOM);
  EXPECT(rackweave_region_create(rack, 0, 100, RACKWEAVE_ACCESS_REMOTE_READ, &region), OK);
  EXPECT(rackweave_region_write(region, 90, bytes, 11), BAD_ARGUMENT);
  EXPECT(rackweave_region_write(region, UINT64_MAX, bytes, 2), BAD_ARGUMENT);
  EXPECT(rackweave_region_write(region, 0, NULL, 2), NULL_POINTER);
  EXPECT(rackweave_region_write(region, 100, NULL, 0), OK);
  EXPECT(rackweave_region_read(region, 0, bytes, SIZE_MAX), BAD_ARGUMENT);
  EXPECT(rackweave_region_get_info(region, NULL), NULL_POINTER);
  /* A handle of another kind. */
  EXPECT(rackweave_rack_drive((rackweave_rack *)(void *)region, NULL), BAD_HANDLE);
  EXPECT(rackweave_region_destroy((rackweave_region *)(void *)rack), BAD_HANDLE);
  EXPECT(rackweave_region_destroy(region), OK);
  EXPECT(rackweave_region_read(region, 0, bytes, 1), BAD_HANDLE);
}

static void flows(rackweave_rack *rack) {
  uint16_t from[] = {0, 1}, to[] = {2, 3}, nobody[] = {99};
  rackweave_flow_options options = {0};
  rackweave_flow *flow = NULL;
  EXPECT(rackweave_flow_create(rack, NULL, &flow), NULL_POINTER);
  EXPECT(rackweave_flow_create(rack, &options, &flow), BAD_ARGUMENT);
  options.item_bytes = 64;
  options.producer_count = 2;
  EXPECT(rackweave_flow_create(rack, &options, &flow), NULL_POINTER);
  options.producers = from;
  options.consumers = nobody;
  options.consumer_count = 1;
  EXPECT(rackweave_flow_create(rack, &options, &flow), NOT_FOUND);
  options.consumers = to;
  options.consumer_count = 2;
  options.shape = 9;
  EXPECT(rackweave_flow_create(rack, &options, &flow), BAD_ARGUMENT);
  options.shape = RACKWEAVE_FLOW_SHAPE_SHUFFLE;
  options.item_bytes = 63;
  EXPECT(rackweave_flow_create(rack, &options, &flow), BAD_ARGUMENT);
  options.item_bytes = 64;
  EXPECT(rackweave_flow_create(rack, &options, &flow), OK);
  rackweave_flow_producer *producer = NULL, *second = NULL;
  rackweave_flow_consumer *consumer = NULL;
  EXPECT(rackweave_flow_producer_create(flow, 2, 0, &producer), NOT_FOUND);
  EXPECT(rackweave_flow_producer_create(flow, 0, 2, &producer), NOT_FOUND);
  EXPECT(rackweave_flow_producer_create(flow, 0, 0, &producer), OK);
  EXPECT(rackweave_flow_producer_create(flow, 0, 0, &second), IN_USE);
  EXPECT(rackweave_flow_consumer_create(flow, 0, &consumer), OK);
  uint8_t item[64] = {1};
  EXPECT(rackweave_flow_producer_try_push(producer, item, 65), TOO_LONG);
  EXPECT(rackweave_flow_producer_commit(producer, 1), BAD_ARGUMENT);
  EXPECT(rackweave_flow_consumer_try_pop(consumer, item, 63), TOO_LONG);
  EXPECT(rackweave_flow_consumer_pop(consumer, item, 64, 1000), TIMED_OUT);
  EXPECT(rackweave_flow_consumer_release(consumer, 1), BAD_ARGUMENT);
  /* The parents go first. */
  EXPECT(rackweave_flow_destroy(flow), OK);
  EXPECT(rackweave_flow_producer_push(producer, item, 64, RACKWEAVE_FOREVER), OK);
  EXPECT(rackweave_flow_consumer_pop(consumer, item, 64, RACKWEAVE_FOREVER), OK);
  EXPECT(rackweave_flow_producer_finish(producer), OK);
  EXPECT(rackweave_flow_producer_try_push(producer, item, 64), FINISHED);
  EXPECT(rackweave_flow_producer_destroy(producer), OK);
  EXPECT(rackweave_flow_producer_finish(producer), BAD_HANDLE);
  EXPECT(rackweave_flow_consumer_destroy(consumer), OK);
  EXPECT(rackweave_flow_state(flow), BAD_HANDLE);
}

static void pages(rackweave_rack *rack) {
  rackweave_pages_options options = {0};
  rackweave_pages *pages = NULL, *again = NULL;
  options.storage = "nobody";
  EXPECT(rackweave_pages_create(rack, &options, &pages), NOT_FOUND);
  options.storage = NULL;
  options.path = "/no/such/folder/file";
  EXPECT(rackweave_pages_create(rack, &options, &pages), SYSTEM);
  options.path = NULL;
  options.pages = UINT64_MAX;
  EXPECT(rackweave_pages_create(rack, &options, &pages), BAD_ARGUMENT);
  EXPECT(rackweave_pages_create(rack, NULL, &pages), OK);
  EXPECT(rackweave_pages_create(rack, NULL, &again), EXISTS);
  rackweave_page_store *store = NULL;
  EXPECT(rackweave_page_store_create(pages, 0, &store), REFUSED);
  EXPECT(rackweave_page_store_create(pages, 2, &store), OK);
  EXPECT(rackweave_page_store_open(store), NOT_FOUND);
  uint64_t page = 0, ticket = 0;
  EXPECT(rackweave_page_store_allocate(store, &page), REFUSED);
  EXPECT(rackweave_page_store_format(store, 1), OK);
  EXPECT(rackweave_page_store_allocate(store, &page), OK);
  rackweave_page_guard *guard = NULL, *other = NULL;
  EXPECT(rackweave_page_store_fix(store, page, 5, RACKWEAVE_FOREVER, &guard), BAD_ARGUMENT);
  EXPECT(rackweave_page_store_fix(store, 1 << 20, 0, RACKWEAVE_FOREVER, &guard), NOT_FOUND);
  EXPECT(rackweave_page_store_fix(store, UINT64_MAX, 0, RACKWEAVE_FOREVER, &guard), NOT_FOUND);
  EXPECT(rackweave_page_store_fix(store, page, 0, RACKWEAVE_FOREVER, &guard), OK);
  uint8_t *data = NULL;
  size_t length = 0;
  EXPECT(rackweave_page_guard_data_mut(guard, &data, &length), REFUSED);
  /* The worker would wait for itself. */
  EXPECT(rackweave_page_store_fix(store, page, 1, RACKWEAVE_FOREVER, &other), CONFLICT);
  EXPECT(rackweave_page_store_submit_fix(store, page, 1, &ticket), CONFLICT);
  EXPECT(rackweave_page_store_free(store, page), CONFLICT);
  EXPECT(rackweave_page_store_take_fix(store, 999, &other), NOT_FOUND);
  EXPECT(rackweave_page_store_fix(store, page, 0, RACKWEAVE_FOREVER, &other), OK);
  EXPECT(rackweave_page_guard_destroy(other), OK);
  EXPECT(rackweave_page_guard_destroy(other), BAD_HANDLE);
  /* The store goes before its guard, whose bytes stay. */
  EXPECT(rackweave_page_store_destroy(store), OK);
  EXPECT(rackweave_pages_destroy(pages), OK);
  const uint8_t *bytes = NULL;
  EXPECT(rackweave_page_guard_data(guard, &bytes, &length), OK);
  if (length == 0 || bytes[length - 1] != 0) failures++;
  EXPECT(rackweave_page_guard_destroy(guard), OK);
}

static void indexes(rackweave_rack *rack) {
  rackweave_index_options options = {0};
  rackweave_index *index = NULL;
  options.value_max = 4;
  EXPECT(rackweave_index_create(rack, &options, &index), BAD_ARGUMENT);
  options.value_max = 0;
  options.node_bytes = 1000;
  EXPECT(rackweave_index_create(rack, &options, &index), BAD_ARGUMENT);
  options.node_bytes = 0;
  options.copies = 3;
  EXPECT(rackweave_index_create(rack, &options, &index), BAD_ARGUMENT);
  EXPECT(rackweave_index_create(rack, NULL, &index), OK);
  rackweave_index_client *client = NULL;
  EXPECT(rackweave_index_client_create(index, 2, 9, &client), BAD_ARGUMENT);
  EXPECT(rackweave_index_client_create(index, 99, 0, &client), NOT_FOUND);
  EXPECT(rackweave_index_client_create(index, 2, 0, &client), OK);
  uint8_t value[100] = {7};
  size_t length = 0;
  EXPECT(rackweave_index_client_insert(client, 1, value, 65, RACKWEAVE_FOREVER), TOO_LONG);
  EXPECT(rackweave_index_client_insert(client, 1, NULL, 8, RACKWEAVE_FOREVER), NULL_POINTER);
  EXPECT(rackweave_index_client_insert(client, 1, value, 20, RACKWEAVE_FOREVER), OK);
  EXPECT(rackweave_index_client_insert(client, 1, value, 20, RACKWEAVE_FOREVER), EXISTS);
  EXPECT(rackweave_index_client_update(client, 2, value, 20, RACKWEAVE_FOREVER), NOT_FOUND);
  EXPECT(rackweave_index_client_delete(client, 2, RACKWEAVE_FOREVER), NOT_FOUND);
  EXPECT(rackweave_index_client_lookup(client, 2, RACKWEAVE_FOREVER, value, 100, &length),
         NOT_FOUND);
  EXPECT(rackweave_index_client_lookup(client, 1, RACKWEAVE_FOREVER, value, 19, &length),
         TOO_LONG);
  if (length != 20) failures++;
  rackweave_index_operation operation = {0};
  uint64_t ticket = 0;
  operation.kind = 50;
  EXPECT(rackweave_index_client_submit(client, &operation, &ticket), BAD_ARGUMENT);
  operation.kind = RACKWEAVE_INDEX_OPERATION_KIND_SCAN;
  operation.key = 9;
  operation.last = 3;
  EXPECT(rackweave_index_client_submit(client, &operation, &ticket), BAD_ARGUMENT);
  EXPECT(rackweave_index_destroy(index), OK);
  EXPECT(rackweave_index_client_put(client, 3, value, 8, RACKWEAVE_FOREVER), OK);
  EXPECT(rackweave_index_client_destroy(client), OK);
}

static void sequencers(rackweave_rack *rack) {
  rackweave_sequencer *sequencer = NULL;
  rackweave_sequencer_client *client = NULL;
  uint64_t first = 0;
  EXPECT(rackweave_sequencer_create(rack, UINT64_MAX, &sequencer), BAD_ARGUMENT);
  EXPECT(rackweave_sequencer_create(rack, 5, &sequencer), OK);
  EXPECT(rackweave_sequencer_client_create(sequencer, 99, &client), NOT_FOUND);
  EXPECT(rackweave_sequencer_client_create(sequencer, 2, &client), OK);
  EXPECT(rackweave_sequencer_client_next(client, 0, RACKWEAVE_FOREVER, &first), BAD_ARGUMENT);
  EXPECT(rackweave_sequencer_client_next(client, 3, RACKWEAVE_FOREVER, NULL), NULL_POINTER);
  EXPECT(rackweave_sequencer_client_next(client, 3, RACKWEAVE_FOREVER, &first), OK);
  if (first != 5) failures++;
  EXPECT(rackweave_sequencer_destroy(sequencer), OK);
  EXPECT(rackweave_sequencer_client_next(client, 1, RACKWEAVE_FOREVER, &first), OK);
  if (first != 8) failures++;
  EXPECT(rackweave_sequencer_client_destroy(client), OK);
}

static void messages(rackweave_rack *rack) {
  rackweave_messaging_options options = {0};
  rackweave_listener *listener = NULL;
  rackweave_connection *near = NULL, *far = NULL;
  EXPECT(rackweave_listener_create(rack, 0, "nowhere", NULL, &listener), BAD_ARGUMENT);
  EXPECT(rackweave_listener_create(rack, 0, "192.0.2.1:1", NULL, &listener), SYSTEM);
  EXPECT(rackweave_listener_create(rack, 99, "127.0.0.1:0", NULL, &listener), NOT_FOUND);
  options.receive_buffers = 8;
  EXPECT(rackweave_listener_create(rack, 0, "127.0.0.1:0", &options, &listener), BAD_ARGUMENT);
  options.receive_buffers = 300;
  EXPECT(rackweave_listener_create(rack, 0, "127.0.0.1:0", &options, &listener), BAD_ARGUMENT);
  options.receive_buffers = 1;
  options.receive_bytes = 1000;
  EXPECT(rackweave_listener_create(rack, 0, "127.0.0.1:0", &options, &listener), BAD_ARGUMENT);
  options.receive_bytes = 1024;
  options.message_max = 5000;
  EXPECT(rackweave_listener_create(rack, 0, "127.0.0.1:0", &options, &listener), OK);
  EXPECT(rackweave_listener_accept(listener, 1000, &far), TIMED_OUT);
  EXPECT(rackweave_connection_dial(rack, 2, "127.0.0.1:1", NULL, 1000000000, &near), GONE);
  /* A region on another node. */
  rackweave_region *region = NULL;
  EXPECT(rackweave_region_create(rack, 2, 4096, 0, &region), OK);
  rackweave_messaging_options wrong = {0};
  wrong.region = region;
  char address[64];
  EXPECT(rackweave_listener_address(listener, address, sizeof address, NULL), OK);
  EXPECT(rackweave_connection_submit_dial(rack, 3, address, &wrong, 1000, &near), BAD_ARGUMENT);
  EXPECT(rackweave_connection_submit_dial(rack, 2, address, NULL, 10000000000u, &near), OK);
  rackweave_sender *sender = NULL;
  rackweave_receiver *receiver = NULL;
  EXPECT(rackweave_sender_create(near, 0, &sender), REFUSED);
  rackweave_status up = RACKWEAVE_STATUS_PENDING, accepted = RACKWEAVE_STATUS_PENDING;
  while (up == RACKWEAVE_STATUS_PENDING || accepted == RACKWEAVE_STATUS_PENDING) {
    if (up == RACKWEAVE_STATUS_PENDING) up = rackweave_connection_poll(near);
    if (accepted == RACKWEAVE_STATUS_PENDING)
      accepted = rackweave_listener_try_accept(listener, &far);
    rackweave_rack_drive(rack, NULL);
  }
  EXPECT(up, OK);
  EXPECT(accepted, OK);
  EXPECT(rackweave_sender_create(near, 1, &sender), NOT_FOUND);
  EXPECT(rackweave_sender_create(near, 0, &sender), OK);
  EXPECT(rackweave_sender_create(near, 0, &sender), IN_USE);
  EXPECT(rackweave_receiver_create(far, 0, &receiver), OK);
  uint8_t bytes[6000] = {0};
  rackweave_message_info info;
  rackweave_piece piece;
  EXPECT(rackweave_sender_try_send(sender, 1, bytes, 2000), TOO_LONG);
  EXPECT(rackweave_sender_send(sender, 1, bytes, 5001, RACKWEAVE_FOREVER), TOO_LONG);
  EXPECT(rackweave_sender_send_region(sender, 1, region, 0, 8, RACKWEAVE_FOREVER),
         BAD_ARGUMENT);
  EXPECT(rackweave_receiver_release(receiver), REFUSED);
  EXPECT(rackweave_receiver_try_peek(receiver, &piece), PENDING);
  EXPECT(rackweave_receiver_receive(receiver, 1000, bytes, sizeof bytes, &info), TIMED_OUT);
  EXPECT(rackweave_sender_send(sender, 9, bytes, 100, RACKWEAVE_FOREVER), OK);
  EXPECT(rackweave_receiver_receive(receiver, RACKWEAVE_FOREVER, bytes, 99, &info), TOO_LONG);
  if (info.length != 100 || info.opcode != 9) failures++;
  EXPECT(rackweave_receiver_receive(receiver, RACKWEAVE_FOREVER, bytes, 100, &info), OK);
  EXPECT(rackweave_sender_begin(sender, 1, 3000), OK);
  EXPECT(rackweave_sender_begin(sender, 1, 3000), REFUSED);
  EXPECT(rackweave_sender_finish(sender), REFUSED);
  EXPECT(rackweave_sender_close(sender, 77), BAD_ARGUMENT);
  EXPECT(rackweave_sender_closed(sender, NULL, NULL), PENDING);
  EXPECT(rackweave_sender_close(sender, RACKWEAVE_CLOSE_REASON_BAD_MESSAGE), OK);
  EXPECT(rackweave_sender_try_send(sender, 1, bytes, 1), CLOSED);
  EXPECT(rackweave_receiver_peek(receiver, RACKWEAVE_FOREVER, &piece), CLOSED);
  uint32_t by = 9, reason = 9;
  EXPECT(rackweave_receiver_closed(receiver, &by, &reason), OK);
  if (by != RACKWEAVE_CLOSED_BY_PEER || reason != RACKWEAVE_CLOSE_REASON_BAD_MESSAGE) failures++;
  EXPECT(rackweave_region_destroy(region), OK);
  EXPECT(rackweave_connection_destroy(near), OK);
  EXPECT(rackweave_connection_destroy(far), OK);
  EXPECT(rackweave_sender_destroy(sender), OK);
  EXPECT(rackweave_receiver_destroy(receiver), OK);
  EXPECT(rackweave_listener_destroy(listener), OK);
}

static void columns(rackweave_rack *rack) {
  rackweave_catalogue *catalogue = NULL;
  const int32_t numbers[4] = {1, 2, 3, 4};
  rackweave_column_data column = {0};
  EXPECT(rackweave_catalogue_create(NULL, 1, &catalogue), NULL_POINTER);
  EXPECT(rackweave_catalogue_create(rack, 1, &catalogue), OK);
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", NULL), NULL_POINTER);
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), BAD_ARGUMENT);
  column.data_type = RACKWEAVE_COLUMN_TYPE_INT32;
  column.rows = 4;
  column.values_length = sizeof numbers;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), NULL_POINTER);
  column.values = (const uint8_t *)numbers;
  EXPECT(rackweave_catalogue_add(catalogue, "", &column), BAD_ARGUMENT);
  column.nulls = 1;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), NULL_POINTER);
  column.nulls = 5;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), BAD_ARGUMENT);
  column.nulls = 0;
  column.rows = UINT64_MAX;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), BAD_ARGUMENT);
  column.rows = 5;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), BAD_ARGUMENT);
  column.rows = 4;
  column.scale = 1;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), BAD_ARGUMENT);
  column.scale = 1000;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), BAD_ARGUMENT);
  column.scale = 0;
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), OK);
  EXPECT(rackweave_catalogue_add(catalogue, "numbers", &column), EXISTS);
  EXPECT(rackweave_catalogue_add(catalogue, "more", &column), NO_ROOM);
  EXPECT(rackweave_catalogue_remove(catalogue, "more"), NOT_FOUND);

  /* An end that was taken, a column that nobody serves, a time limit. */
  rackweave_listener *listener = NULL;
  rackweave_connection *near = NULL, *far = NULL;
  rackweave_column_server *server = NULL;
  rackweave_column_reader *reader = NULL;
  rackweave_sender *sender = NULL;
  char address[64];
  EXPECT(rackweave_listener_create(rack, 0, "127.0.0.1:0", NULL, &listener), OK);
  EXPECT(rackweave_listener_address(listener, address, sizeof address, NULL), OK);
  EXPECT(rackweave_connection_submit_dial(rack, 2, address, NULL, 10000000000u, &near), OK);
  EXPECT(rackweave_column_reader_create(near, &reader), REFUSED);
  rackweave_status up = RACKWEAVE_STATUS_PENDING, accepted = RACKWEAVE_STATUS_PENDING;
  while (up == RACKWEAVE_STATUS_PENDING || accepted == RACKWEAVE_STATUS_PENDING) {
    if (up == RACKWEAVE_STATUS_PENDING) up = rackweave_connection_poll(near);
    if (accepted == RACKWEAVE_STATUS_PENDING)
      accepted = rackweave_listener_try_accept(listener, &far);
    rackweave_rack_drive(rack, NULL);
  }
  EXPECT(rackweave_column_reader_create(near, &reader), OK);
  EXPECT(rackweave_column_reader_create(near, &reader), IN_USE);
  EXPECT(rackweave_sender_create(near, 0, &sender), IN_USE);
  EXPECT(rackweave_column_server_create(far, (rackweave_catalogue *)(void *)rack, &server),
         BAD_HANDLE);
  EXPECT(rackweave_column_server_create(far, catalogue, &server), OK);
  rackweave_column *arrived = NULL;
  uint64_t asked = 0, came = 0;
  EXPECT(rackweave_column_reader_fetch(reader, "numbers", 1000000, &arrived), TIMED_OUT);
  EXPECT(rackweave_column_reader_poll(reader, &came, &arrived), PENDING);
  EXPECT(rackweave_column_reader_submit(reader, "", &asked), BAD_ARGUMENT);
  EXPECT(rackweave_column_reader_submit(reader, "nothing", &asked), OK);
  EXPECT(rackweave_column_reader_finish(reader, 0), REFUSED);
  rackweave_status status = RACKWEAVE_STATUS_PENDING;
  while (status == RACKWEAVE_STATUS_PENDING) {
    rackweave_column_server_poll(server);
    status = rackweave_column_reader_poll(reader, &came, &arrived);
    rackweave_rack_drive(rack, NULL);
  }
  EXPECT(status, NOT_FOUND);
  if (asked != came) failures++;
  EXPECT(rackweave_column_get_data(arrived, &column), NULL_POINTER);
  EXPECT(rackweave_column_server_destroy(server), OK);
  EXPECT(rackweave_column_reader_fetch(reader, "numbers", 10000000000u, &arrived), CLOSED);
  EXPECT(rackweave_column_reader_destroy(reader), OK);
  EXPECT(rackweave_connection_destroy(near), OK);
  EXPECT(rackweave_connection_destroy(far), OK);
  EXPECT(rackweave_listener_destroy(listener), OK);
  EXPECT(rackweave_catalogue_destroy(catalogue), OK);
}

int main(void) {
  racks();
  rackweave_rack *rack = NULL;
  EXPECT(rackweave_rack_create(NULL, &rack), OK);
  regions(rack);
  flows(rack);
  pages(rack);
  indexes(rack);
  sequencers(rack);
  messages(rack);
  columns(rack);
  EXPECT(rackweave_rack_destroy(rack), OK);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
