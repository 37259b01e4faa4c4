/* Pages in C: a store of pages in a rack inside this process. One compute node changes a page,
 * another one sees the change. Exits with 1 if anything is not as it should be. */

#include <rackweave.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What fails is reported, and ends the program: the system takes back what it had. */
static void check(rackweave_status status, const char *what) {
  if (status != RACKWEAVE_STATUS_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, rackweave_status_text(status),
            rackweave_error_detail());
    exit(1);
  }
}

int main(int argc, char **argv) {
  /* NULL: the default rack, two storage and two compute nodes and a memory node. With an argument,
   * the running rack of that configuration, as the two nodes that are used here. */
  rackweave_rack *rack = NULL;
  check(argc > 1 ? rackweave_rack_join(argv[1], "compute0,compute1", &rack)
                 : rackweave_rack_create(NULL, &rack),
        "rack");
  uint16_t writer_node = 0, reader_node = 0;
  check(rackweave_rack_node_by_name(rack, "compute0", &writer_node), "node");
  check(rackweave_rack_node_by_name(rack, "compute1", &reader_node), "node");

  /* A store of 64 pages in memory; what is zero is as by default. */
  rackweave_pages_options options = {0};
  options.pages = 64;
  rackweave_pages *pages = NULL;
  check(rackweave_pages_create(rack, &options, &pages), "pages");
  rackweave_page_store *writer = NULL, *reader = NULL;
  check(rackweave_page_store_create(pages, writer_node, &writer), "writer");
  check(rackweave_page_store_create(pages, reader_node, &reader), "reader");

  /* One makes the store, the other one opens it. */
  check(rackweave_page_store_format(writer, 20240), "format");
  check(rackweave_page_store_open(reader), "open");

  /* A page for the writer alone: fixed exclusively, changed in place. */
  uint64_t page = 0;
  check(rackweave_page_store_allocate(writer, &page), "allocate");
  rackweave_page_guard *guard = NULL;
  check(rackweave_page_store_fix(writer, page, RACKWEAVE_PAGE_MODE_EXCLUSIVE,
                                 RACKWEAVE_FOREVER, &guard),
        "fix exclusive");
  uint8_t *bytes = NULL;
  size_t length = 0;
  check(rackweave_page_guard_data_mut(guard, &bytes, &length), "data");
  memset(bytes, 0, length);
  strcpy((char *)bytes, "written on compute0");
  /* From here on others may have it: the pointer is of no use any more. */
  check(rackweave_page_guard_commit(guard, RACKWEAVE_FOREVER), "commit");

  /* The other node begins to fix it, and polls until it has come: over the network, from the
   * memory of the first node. */
  uint64_t ticket = 0;
  check(rackweave_page_store_submit_fix(reader, page, RACKWEAVE_PAGE_MODE_SHARED, &ticket),
        "submit");
  rackweave_status status = RACKWEAVE_STATUS_PENDING;
  while (status == RACKWEAVE_STATUS_PENDING) {
    rackweave_page_store_poll(reader);
    rackweave_rack_drive(rack, NULL);
    status = rackweave_page_store_take_fix(reader, ticket, &guard);
  }
  check(status, "take");
  const uint8_t *seen = NULL;
  uint64_t version = 0;
  check(rackweave_page_guard_data(guard, &seen, &length), "data");
  check(rackweave_page_guard_page(guard, NULL, &version), "version");
  printf("page %llu, version %llu: %s\n", (unsigned long long)page,
         (unsigned long long)version, (const char *)seen);
  int is_right = strcmp((const char *)seen, "written on compute0") == 0;
  check(rackweave_page_guard_destroy(guard), "guard");

  /* Everything goes home, and the store is closed. */
  check(rackweave_page_store_destroy(reader), "reader");
  check(rackweave_page_store_close(writer), "close");
  check(rackweave_page_store_destroy(writer), "writer");
  check(rackweave_pages_destroy(pages), "pages");
  check(rackweave_rack_destroy(rack), "rack");
  return is_right ? 0 : 1;
}
