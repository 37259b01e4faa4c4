#ifndef RACKWEAVE_H
#define RACKWEAVE_H

/* Made from crates/capi by cbindgen: change it there, then run `cargo xtask header`. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The version of this header: a program that was built against another major version, or while
 * that is 0 against another minor one, is to be built anew.
 */
#define RACKWEAVE_VERSION_MAJOR 0

/**
 * The minor version.
 */
#define RACKWEAVE_VERSION_MINOR 1

/**
 * The patch.
 */
#define RACKWEAVE_VERSION_PATCH 0

/**
 * As a time limit: none. The call waits for as long as it takes.
 */
#define RACKWEAVE_FOREVER UINT64_MAX

/**
 * Flags of `rackweave_region_create`: a peer may READ.
 */
#define RACKWEAVE_ACCESS_REMOTE_READ 2

/**
 * Flags of `rackweave_region_create`: a peer may WRITE.
 */
#define RACKWEAVE_ACCESS_REMOTE_WRITE 4

/**
 * Flags of `rackweave_region_create`: a peer may run atomic operations.
 */
#define RACKWEAVE_ACCESS_REMOTE_ATOMIC 8

/**
 * What a node is for.
 */
typedef enum rackweave_role {
  /**
   * Runs queries.
   */
  RACKWEAVE_ROLE_COMPUTE = 0,
  /**
   * Lends memory.
   */
  RACKWEAVE_ROLE_MEMORY = 1,
  /**
   * Holds tables.
   */
  RACKWEAVE_ROLE_STORAGE = 2,
  /**
   * A data processing unit.
   */
  RACKWEAVE_ROLE_DPU = 3,
  /**
   * A place for a program that joins a rack of processes without a name of its own.
   */
  RACKWEAVE_ROLE_GUEST = 4,
} rackweave_role;

/**
 * How a call ended. Those below 16 are no errors.
 */
typedef enum rackweave_status {
  /**
   * It was done.
   */
  RACKWEAVE_STATUS_OK = 0,
  /**
   * Nothing yet, or no space yet: try again later.
   */
  RACKWEAVE_STATUS_PENDING = 1,
  /**
   * Nothing will come any more: the stream has ended, and all of it was taken.
   */
  RACKWEAVE_STATUS_END = 2,
  /**
   * There is no such thing: key, node, ticket.
   */
  RACKWEAVE_STATUS_NOT_FOUND = 3,
  /**
   * There is one already: an index had the key.
   */
  RACKWEAVE_STATUS_EXISTS = 4,
  /**
   * The time given for it is over. What was begun for the call was given up.
   */
  RACKWEAVE_STATUS_TIMED_OUT = 5,
  /**
   * A pointer that must point to something is NULL, or is not aligned.
   */
  RACKWEAVE_STATUS_NULL_POINTER = 16,
  /**
   * The handle is none, or of another kind, or was destroyed.
   */
  RACKWEAVE_STATUS_BAD_HANDLE = 17,
  /**
   * Another thread is in a call with this handle, which is for one thread at a time.
   */
  RACKWEAVE_STATUS_BUSY = 18,
  /**
   * An argument is out of range, or does not go with the others.
   */
  RACKWEAVE_STATUS_BAD_ARGUMENT = 19,
  /**
   * The configuration of the rack makes no sense.
   */
  RACKWEAVE_STATUS_BAD_CONFIG = 20,
  /**
   * A limit is reached: of memory, of a NIC, of the switch, of a queue, of a store.
   */
  RACKWEAVE_STATUS_NO_ROOM = 21,
  /**
   * What was given is longer than what takes it, or what came than where it is to go.
   */
  RACKWEAVE_STATUS_TOO_LONG = 22,
  /**
   * Somebody else has it already.
   */
  RACKWEAVE_STATUS_IN_USE = 23,
  /**
   * The caller would wait for itself: it has fixed the page already.
   */
  RACKWEAVE_STATUS_CONFLICT = 24,
  /**
   * The system refused: a file, a thread, a socket.
   */
  RACKWEAVE_STATUS_SYSTEM = 25,
  /**
   * What came from storage or from a peer is damaged.
   */
  RACKWEAVE_STATUS_CORRUPT = 26,
  /**
   * Whoever has to answer does not, or the connection to it is broken.
   */
  RACKWEAVE_STATUS_GONE = 27,
  /**
   * A write was not answered: it may or may not have been done.
   */
  RACKWEAVE_STATUS_OUTCOME_UNKNOWN = 28,
  /**
   * The flow was broken off.
   */
  RACKWEAVE_STATUS_ABORTED = 29,
  /**
   * The caller has said before that nothing more will come.
   */
  RACKWEAVE_STATUS_FINISHED = 30,
  /**
   * The other side refuses, or the state of things does not allow it.
   */
  RACKWEAVE_STATUS_REFUSED = 31,
  /**
   * The connection is closed.
   */
  RACKWEAVE_STATUS_CLOSED = 32,
  /**
   * The newest version went down with the node that had it.
   */
  RACKWEAVE_STATUS_LOST = 33,
  /**
   * A bug of Rackweave's: please report it with the detail text. The handle that was used can
   * only be destroyed.
   */
  RACKWEAVE_STATUS_INTERNAL = 99,
} rackweave_status;

/**
 * How items find their consumers.
 */
typedef enum rackweave_flow_shape {
  /**
   * A producer has a ring for each consumer and chooses. With one of each it is a 1:1 flow.
   */
  RACKWEAVE_FLOW_SHAPE_SHUFFLE = 0,
  /**
   * A producer has one ring; each item goes to one consumer, whichever has space.
   */
  RACKWEAVE_FLOW_SHAPE_BALANCE = 1,
  /**
   * A producer has one ring; each item goes to all consumers or to none, in one order
   * everywhere.
   */
  RACKWEAVE_FLOW_SHAPE_REPLICATE = 2,
} rackweave_flow_shape;

/**
 * How a page is fixed.
 */
typedef enum rackweave_page_mode {
  /**
   * To be read: what was the newest version at some moment of the call.
   */
  RACKWEAVE_PAGE_MODE_SHARED = 0,
  /**
   * To be changed: the newest version, which nobody else in the rack changes meanwhile.
   */
  RACKWEAVE_PAGE_MODE_EXCLUSIVE = 1,
} rackweave_page_mode;

/**
 * How a client reads. Writes are requests all the same.
 */
typedef enum rackweave_index_access {
  /**
   * By requests to the server.
   */
  RACKWEAVE_INDEX_ACCESS_RPC = 0,
  /**
   * By READs of the memory of the index.
   */
  RACKWEAVE_INDEX_ACCESS_ONE_SIDED = 1,
} rackweave_index_access;

/**
 * What is asked of an index.
 */
typedef enum rackweave_index_operation_kind {
  /**
   * The value of `key`: OK or NOT_FOUND.
   */
  RACKWEAVE_INDEX_OPERATION_KIND_LOOKUP = 0,
  /**
   * A value for a key that has none: OK, or EXISTS and nothing is changed.
   */
  RACKWEAVE_INDEX_OPERATION_KIND_INSERT = 1,
  /**
   * Another value for a key that has one: OK or NOT_FOUND.
   */
  RACKWEAVE_INDEX_OPERATION_KIND_UPDATE = 2,
  /**
   * A value, whether or not the key has one: OK.
   */
  RACKWEAVE_INDEX_OPERATION_KIND_PUT = 3,
  /**
   * No value any more: OK or NOT_FOUND.
   */
  RACKWEAVE_INDEX_OPERATION_KIND_DELETE = 4,
  /**
   * The entries from `key` to `last`, both inclusive, at most `limit`, ascending.
   */
  RACKWEAVE_INDEX_OPERATION_KIND_SCAN = 5,
  /**
   * The same from the other end, descending.
   */
  RACKWEAVE_INDEX_OPERATION_KIND_SCAN_BACKWARD = 6,
} rackweave_index_operation_kind;

/**
 * Why a connection is closed.
 */
typedef enum rackweave_close_reason {
  /**
   * It is no longer needed.
   */
  RACKWEAVE_CLOSE_REASON_NORMAL = 1,
  /**
   * The node stops.
   */
  RACKWEAVE_CLOSE_REASON_NODE_STOPS = 2,
  /**
   * The peer wrote a state that does not exist, or does not belong there.
   */
  RACKWEAVE_CLOSE_REASON_FOREIGN_STATE = 3,
  /**
   * The peer named a package that cannot be.
   */
  RACKWEAVE_CLOSE_REASON_BAD_SEQUENCE = 4,
  /**
   * The peer said that there are more bytes than a receive buffer holds, or too few.
   */
  RACKWEAVE_CLOSE_REASON_BAD_LENGTH = 5,
  /**
   * A piece contradicts its package, or the pieces before.
   */
  RACKWEAVE_CLOSE_REASON_BAD_HEADER = 6,
  /**
   * A message is longer than was agreed.
   */
  RACKWEAVE_CLOSE_REASON_MESSAGE_TOO_LONG = 7,
  /**
   * What the peer's messages say makes no sense to those who read them.
   */
  RACKWEAVE_CLOSE_REASON_BAD_MESSAGE = 8,
  /**
   * A queue pair broke: the peer is gone, or cannot be reached.
   */
  RACKWEAVE_CLOSE_REASON_TRANSPORT_BROKEN = 9,
} rackweave_close_reason;

/**
 * Who closed a connection.
 */
typedef enum rackweave_closed_by {
  /**
   * This node.
   */
  RACKWEAVE_CLOSED_BY_LOCAL = 0,
  /**
   * The other one.
   */
  RACKWEAVE_CLOSED_BY_PEER = 1,
  /**
   * Nobody: a queue pair broke.
   */
  RACKWEAVE_CLOSED_BY_TRANSPORT = 2,
} rackweave_closed_by;

/**
 * The type of a column's values, little-endian.
 */
typedef enum rackweave_column_type {
  /**
   * A bit each, from the lowest of a byte on.
   */
  RACKWEAVE_COLUMN_TYPE_BOOLEAN = 1,
  /**
   * Signed numbers of 4 bytes.
   */
  RACKWEAVE_COLUMN_TYPE_INT32 = 2,
  /**
   * Signed numbers of 8 bytes.
   */
  RACKWEAVE_COLUMN_TYPE_INT64 = 3,
  /**
   * IEEE 754 binary64.
   */
  RACKWEAVE_COLUMN_TYPE_FLOAT64 = 4,
  /**
   * Days since 1970-01-01, of 4 bytes.
   */
  RACKWEAVE_COLUMN_TYPE_DATE32 = 5,
  /**
   * Signed numbers of 16 bytes: the value times ten to the power of `scale`.
   */
  RACKWEAVE_COLUMN_TYPE_DECIMAL128 = 6,
  /**
   * Texts in UTF-8, one after the other.
   */
  RACKWEAVE_COLUMN_TYPE_UTF8 = 7,
} rackweave_column_type;

/**
 * Named columns in a rack's memory, which any number of connections serve. Any thread, several at
 * a time.
 */
typedef struct rackweave_catalogue rackweave_catalogue;

/**
 * A column that has arrived. Any thread, several at a time.
 */
typedef struct rackweave_column rackweave_column;

/**
 * Requests columns over one connection. One thread at a time.
 */
typedef struct rackweave_column_reader rackweave_column_reader;

/**
 * Serves the columns of a catalogue over one connection. One thread at a time.
 */
typedef struct rackweave_column_server rackweave_column_server;

/**
 * One node's side of a connection, or of one that is being made. One thread at a time.
 */
typedef struct rackweave_connection rackweave_connection;

/**
 * A flow. Any thread, several at a time.
 */
typedef struct rackweave_flow rackweave_flow;

/**
 * A consumer's ring. One thread at a time.
 */
typedef struct rackweave_flow_consumer rackweave_flow_consumer;

/**
 * A producer's ring. One thread at a time.
 */
typedef struct rackweave_flow_producer rackweave_flow_producer;

/**
 * An index: keys are 64-bit numbers, values bytes. Any thread, several at a time.
 */
typedef struct rackweave_index rackweave_index;

/**
 * A client of an index. One thread at a time.
 */
typedef struct rackweave_index_client rackweave_index_client;

/**
 * A storage node that compute nodes connect to. One thread at a time.
 */
typedef struct rackweave_listener rackweave_listener;

/**
 * A fixed page. One thread at a time; it may be another than that of its page store.
 */
typedef struct rackweave_page_guard rackweave_page_guard;

/**
 * One worker's way to the pages of a rack. One thread at a time.
 */
typedef struct rackweave_page_store rackweave_page_store;

/**
 * A rack's page directory, with a store of pages behind it. Any thread, several at a time.
 */
typedef struct rackweave_pages rackweave_pages;

/**
 * A rack in this process: nodes with NICs and memory, and the switch between them. Any thread,
 * several at a time.
 */
typedef struct rackweave_rack rackweave_rack;

/**
 * Receives the messages of one channel. One thread at a time.
 */
typedef struct rackweave_receiver rackweave_receiver;

/**
 * Memory of a node that its NIC has registered. Any thread, several at a time.
 */
typedef struct rackweave_region rackweave_region;

/**
 * Sends messages on one channel. One thread at a time; ends of one connection may be in several.
 */
typedef struct rackweave_sender rackweave_sender;

/**
 * A sequencer in the switch of a rack. Any thread, several at a time.
 */
typedef struct rackweave_sequencer rackweave_sequencer;

/**
 * A client of a sequencer. One thread at a time.
 */
typedef struct rackweave_sequencer_client rackweave_sequencer_client;

/**
 * What there is to know of a region.
 */
typedef struct rackweave_region_info {
  /**
   * Its first byte in this process, at a multiple of 64. The bytes stay in place until the
   * region is destroyed. They are shared memory: where a peer may write at the same time, read
   * them as you would read what another thread writes.
   */
  uint8_t *data;
  /**
   * Bytes.
   */
  uint64_t length;
  /**
   * The address of its first byte, as peers and work requests name it.
   */
  uint64_t address;
  /**
   * The key for peers.
   */
  uint32_t rkey;
  /**
   * The key for the node's own work requests.
   */
  uint32_t lkey;
  /**
   * The node.
   */
  uint16_t node;
} rackweave_region_info;

/**
 * What a flow is to be. What is 0 or NULL is as by default.
 */
typedef struct rackweave_flow_options {
  /**
   * A `rackweave_flow_shape`.
   */
  uint32_t shape;
  /**
   * Bytes of an item, a multiple of 8. There is no default.
   */
  uint32_t item_bytes;
  /**
   * Bytes of a ring, about; the number of items in it is a power of two. 0: 65536.
   */
  uint32_t ring_bytes;
  /**
   * Its share among flows with a weight; 0: it takes what it gets.
   */
  uint32_t weight;
  /**
   * The nodes of the producers, `producer_count` numbers. A node may appear more than once.
   */
  const uint16_t *producers;
  /**
   * How many.
   */
  size_t producer_count;
  /**
   * The nodes of the consumers, `consumer_count` numbers.
   */
  const uint16_t *consumers;
  /**
   * How many.
   */
  size_t consumer_count;
} rackweave_flow_options;

/**
 * What the pages of a rack are to be. What is 0 or NULL is as by default.
 */
typedef struct rackweave_pages_options {
  /**
   * The file or block device that has the store; NULL: memory, which goes with the rack.
   */
  const char *path;
  /**
   * Pages of the store. With a path: a new file for so many pages; 0: the file that is there,
   * with as many as it has space for. In memory: 0 is 1024.
   */
  uint64_t pages;
  /**
   * The node with the NVMe target, by name; NULL: the first storage node.
   */
  const char *storage;
  /**
   * The node whose memory has the entries of pages that the switch does not index, by name;
   * NULL: the first memory node, if there is one.
   */
  const char *fallback;
  /**
   * Buffer frames of each compute node; 0: 256.
   */
  uint32_t frames;
  /**
   * Workers of each compute node, one `rackweave_page_store` each at a time; 0: 2.
   */
  uint16_t workers;
  /**
   * Requests of a worker under way at a time; 0: 16.
   */
  uint16_t requests;
} rackweave_pages_options;

/**
 * What an index is to be. What is 0 or NULL is as by default.
 */
typedef struct rackweave_index_options {
  /**
   * The node whose memory has it, by name; NULL: the first storage node.
   */
  const char *node;
  /**
   * Keys that it has space for, about; 0: 65536.
   */
  uint64_t keys;
  /**
   * Bytes of the longest value, 8 to 65000; 0: 64. With 8, all values have eight bytes, and
   * lie in the tree nodes.
   */
  uint32_t value_max;
  /**
   * Bytes of a tree node: 512, 1024, 2048 or 4096; 0: 1024.
   */
  uint32_t node_bytes;
  /**
   * Clients at a time; 0: 16.
   */
  uint16_t clients;
  /**
   * Copies of every value, 1 or 2, the second at another storage node: then the death of either
   * node loses none; 0: 1.
   */
  uint16_t copies;
} rackweave_index_options;

/**
 * An operation.
 */
typedef struct rackweave_index_operation {
  /**
   * A `rackweave_index_operation_kind`.
   */
  uint32_t kind;
  /**
   * Of scans: entries at most.
   */
  uint32_t limit;
  /**
   * The key; of scans the least one.
   */
  uint64_t key;
  /**
   * Of scans: the greatest key.
   */
  uint64_t last;
  /**
   * Of inserts, updates and puts: the value's bytes, which are copied.
   */
  const uint8_t *value;
  /**
   * How many.
   */
  size_t value_length;
} rackweave_index_operation;

/**
 * An entry of an index.
 */
typedef struct rackweave_index_entry {
  /**
   * The key.
   */
  uint64_t key;
  /**
   * The value's bytes.
   */
  const uint8_t *value;
  /**
   * How many.
   */
  size_t value_length;
} rackweave_index_entry;

/**
 * How an operation ended. The pointers are good until the next call with the client.
 */
typedef struct rackweave_index_reply {
  /**
   * Which operation.
   */
  uint64_t ticket;
  /**
   * How it ended: as its kind says, or with an error. NO_ROOM, TOO_LONG, GONE, REFUSED and
   * CORRUPT: nothing was changed. OUTCOME_UNKNOWN: of a write that was not answered.
   */
  rackweave_status status;
  /**
   * What was found: of a lookup one entry, of a scan in its order.
   */
  const struct rackweave_index_entry *entries;
  /**
   * How many.
   */
  size_t entry_count;
} rackweave_index_reply;

/**
 * How a node wants its connections. What is 0 or NULL is as by default. Sizes and numbers of
 * buffers are each node's own; of the rest, the smaller of what both say holds.
 */
typedef struct rackweave_messaging_options {
  /**
   * Receive buffers of a connection, 1 to 7; 0: 4.
   */
  uint32_t receive_buffers;
  /**
   * Bytes of each, a multiple of 64 from 1 KiB to 1 GiB; 0: 256 KiB.
   */
  uint32_t receive_bytes;
  /**
   * Bytes of the send buffer, a multiple of 64; 0: what the peer's receive buffers hold.
   */
  uint64_t send_bytes;
  /**
   * The longest message in bytes; 0: 4 GiB.
   */
  uint64_t message_max;
  /**
   * Channels from the compute to the storage node, 1 to 7; 0: 1.
   */
  uint32_t channels_up;
  /**
   * Channels from the storage to the compute node, 1 to 7; 0: 1.
   */
  uint32_t channels_down;
  /**
   * Nanoseconds after which a silent peer is asked for a sign of life; 0: half a second;
   * RACKWEAVE_FOREVER: it never is.
   */
  uint64_t keepalive_ns;
  /**
   * A region of this node that `rackweave_sender_send_region` is to send from; else NULL.
   */
  const struct rackweave_region *region;
} rackweave_messaging_options;

/**
 * What an end has sent, or taken.
 */
typedef struct rackweave_channel_counters {
  /**
   * Messages, whole ones.
   */
  uint64_t messages;
  /**
   * Their bytes.
   */
  uint64_t bytes;
  /**
   * Pieces that they were cut into.
   */
  uint64_t pieces;
  /**
   * Packages that these travelled in.
   */
  uint64_t packages;
  /**
   * Of a sender: polls at which the peer had no receive buffer free.
   */
  uint64_t waits;
  /**
   * Signs of life asked for.
   */
  uint64_t pulses;
} rackweave_channel_counters;

/**
 * A part of a message, where it lies in a receive buffer.
 */
typedef struct rackweave_piece {
  /**
   * The bytes, at an address that is a multiple of 32, until the piece is released.
   */
  const uint8_t *bytes;
  /**
   * How many.
   */
  size_t length;
  /**
   * Bytes of the whole message.
   */
  uint64_t total;
  /**
   * Bytes of the message before this piece.
   */
  uint64_t offset;
  /**
   * What the message is, as its sender has it.
   */
  uint32_t opcode;
  /**
   * The message's number on its channel, from zero, modulo 2^32.
   */
  uint32_t message;
  /**
   * Whether the message ends with this piece.
   */
  bool last;
} rackweave_piece;

/**
 * A message that was copied out.
 */
typedef struct rackweave_message_info {
  /**
   * Its bytes.
   */
  uint64_t length;
  /**
   * What it is, as its sender has it.
   */
  uint32_t opcode;
  /**
   * Its number on its channel, from zero, modulo 2^32.
   */
  uint32_t message;
} rackweave_message_info;

/**
 * A column: its shape, and its buffers as in Arrow's columnar format.
 */
typedef struct rackweave_column_data {
  /**
   * A RACKWEAVE_COLUMN_TYPE_*.
   */
  uint32_t data_type;
  /**
   * Of decimals: digits, 1 to 38; else 0.
   */
  uint32_t precision;
  /**
   * Of decimals: digits after the point; negative: zeros before it. Else 0.
   */
  int32_t scale;
  /**
   * Rows.
   */
  uint64_t rows;
  /**
   * Rows that are null.
   */
  uint64_t nulls;
  /**
   * The version, a checksum of all of this. Not read by `rackweave_catalogue_add`.
   */
  uint64_t version;
  /**
   * A bit per row, 1 if it is not null; NULL if none is.
   */
  const uint8_t *validity;
  /**
   * Of texts: `rows` + 1 numbers of 4 bytes, where each begins and ends; else NULL.
   */
  const uint8_t *offsets;
  /**
   * The values.
   */
  const uint8_t *values;
  /**
   * Their bytes.
   */
  size_t values_length;
} rackweave_column_data;



#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that is loaded, as "major.minor.patch". Any thread.
 */
const char *rackweave_version(void);

/**
 * A few words for a status, in English; of a number that is no status, NULL. The text stays as
 * long as the library is loaded. Any thread.
 */
const char *rackweave_status_text(int32_t status);

/**
 * What was wrong with the last call of this thread that did not end with OK, in English: what,
 * where, and what to do about it. PENDING, END and those like them leave no text.
 *
 * The text is the library's, and stays until the next call of this thread fails. Never NULL.
 */
const char *rackweave_error_detail(void);

/**
 * Copies that text into `buffer`, with a zero byte behind it, and its bytes without the zero byte
 * into `length`, which may be NULL. With `capacity` 0, `buffer` may be NULL.
 *
 * TOO_LONG: the buffer has less than `length + 1` bytes; it has been given what fits.
 *
 * Pointers:
 * `buffer` has `capacity` bytes that may be written; `length` is NULL or may be written.
 */
rackweave_status rackweave_error_detail_copy(char *buffer, size_t capacity, size_t *length);

/**
 * Builds and starts a rack.
 *
 * `toml` is the text of a configuration (docs/capi.md says what is in it), or NULL for the
 * default of this library: nodes `storage0`, `storage1`, `compute0`, `compute1`, `memory0`, and a
 * switch that has space for flows, pages and sequencers together.
 *
 * The rack ends when its handle and all that was made with it are destroyed, in any order.
 *
 * BAD_CONFIG: the configuration makes no sense. SYSTEM: no threads.
 *
 * Pointers:
 * `toml` is NULL or ends with a zero byte; `rack` may be written.
 */
rackweave_status rackweave_rack_create(const char *toml, struct rackweave_rack **rack);

/**
 * Builds and starts a rack from a configuration in a file. As `rackweave_rack_create`.
 *
 * Pointers:
 * `path` ends with a zero byte; `rack` may be written.
 */
rackweave_status rackweave_rack_create_from_file(const char *path, struct rackweave_rack **rack);

/**
 * Joins a running rack of processes as one of its nodes, or several. `path` is the file with its
 * configuration, `node` the name of the node, or names with commas between them, which no other
 * process may be, or NULL for a place of a section `[[guest]]` that is free. The process has the
 * memory and NICs of these nodes, and every service of the rack; other nodes are in other
 * processes.
 *
 * The process leaves the rack when the handle and all that was made with it are destroyed.
 *
 * BAD_CONFIG: the configuration makes no sense, or has no such node. GONE: no rack runs there, or
 * it does not admit the node; the detail says why. SYSTEM: no key, no folder for sockets.
 *
 * Pointers:
 * `path` ends with a zero byte, `node` too, or is NULL; `rack` may be written.
 */
rackweave_status rackweave_rack_join(const char *path,
                                     const char *node,
                                     struct rackweave_rack **rack);

/**
 * Ends a handle of a rack. What was made with the rack keeps it alive. NULL is allowed.
 */
rackweave_status rackweave_rack_destroy(struct rackweave_rack *rack);

/**
 * The configuration that a rack runs with, as TOML text, all defaults written out: copied as
 * `rackweave_error_detail_copy` copies.
 *
 * Pointers:
 * `buffer` has `capacity` bytes; `length` is NULL or may be written.
 */
rackweave_status rackweave_rack_config(const struct rackweave_rack *rack,
                                       char *buffer,
                                       size_t capacity,
                                       size_t *length);

/**
 * How many nodes there are. They are counted from 0, as the configuration lists them.
 *
 * Pointers:
 * `count` may be written.
 */
rackweave_status rackweave_rack_node_count(const struct rackweave_rack *rack, uint16_t *count);

/**
 * The number of the node with this name. NOT_FOUND: there is none.
 *
 * Pointers:
 * `name` ends with a zero byte; `node` may be written.
 */
rackweave_status rackweave_rack_node_by_name(const struct rackweave_rack *rack,
                                             const char *name,
                                             uint16_t *node);

/**
 * The name of a node, copied as `rackweave_error_detail_copy` copies. NOT_FOUND: no such node.
 *
 * Pointers:
 * `buffer` has `capacity` bytes; `length` is NULL or may be written.
 */
rackweave_status rackweave_rack_node_name(const struct rackweave_rack *rack,
                                          uint16_t node,
                                          char *buffer,
                                          size_t capacity,
                                          size_t *length);

/**
 * What a node is for. NOT_FOUND: no such node.
 *
 * Pointers:
 * `role` may be written.
 */
rackweave_status rackweave_rack_node_role(const struct rackweave_rack *rack,
                                          uint16_t node,
                                          enum rackweave_role *role);

/**
 * Drives the rack a little: what is under way gets on. Calls that wait do this themselves; a
 * program that only submits and polls calls it in its loop, unless the rack has driver threads.
 *
 * `moved`, which may be NULL: whether anything happened.
 *
 * Pointers:
 * `moved` is NULL or may be written.
 */
rackweave_status rackweave_rack_drive(const struct rackweave_rack *rack, bool *moved);

/**
 * Has a caller rest whom nothing has happened to for `idle_rounds` calls of
 * `rackweave_rack_drive` in a row: it spins at first, and sleeps for up to 2 ms later on.
 */
rackweave_status rackweave_rack_relax(const struct rackweave_rack *rack, uint32_t idle_rounds);

/**
 * Gives a node so many bytes, all zero, and registers them with its NIC. `access` are flags
 * RACKWEAVE_ACCESS_* for peers; the node itself may always read and write.
 *
 * NOT_FOUND: no such node. NO_ROOM: the rack's `memory_limit` or the NIC's table.
 *
 * Pointers:
 * `region` may be written.
 */
rackweave_status rackweave_region_create(const struct rackweave_rack *rack,
                                         uint16_t node,
                                         uint64_t length,
                                         uint32_t access,
                                         struct rackweave_region **region);

/**
 * Ends a handle of a region. Its memory goes when nothing uses it any more: a message that is
 * being sent from it does. Pointers into it are of no use from now on. NULL is allowed.
 */
rackweave_status rackweave_region_destroy(struct rackweave_region *region);

/**
 * Where a region is, its keys and its bytes.
 *
 * Pointers:
 * `info` may be written.
 */
rackweave_status rackweave_region_get_info(const struct rackweave_region *region,
                                           struct rackweave_region_info *info);

/**
 * Copies bytes into a region, which a peer may be reading or writing at the same time.
 *
 * BAD_ARGUMENT: not all of them lie in the region; nothing was copied.
 *
 * Pointers:
 * `bytes` has `length` bytes.
 */
rackweave_status rackweave_region_write(const struct rackweave_region *region,
                                        uint64_t offset,
                                        const uint8_t *bytes,
                                        size_t length);

/**
 * Copies bytes out of a region, which a peer may be writing at the same time.
 *
 * BAD_ARGUMENT: not all of them lie in the region; nothing was copied.
 *
 * Pointers:
 * `buffer` has `length` bytes.
 */
rackweave_status rackweave_region_read(const struct rackweave_region *region,
                                       uint64_t offset,
                                       uint8_t *buffer,
                                       size_t length);

/**
 * Sets a flow up.
 *
 * BAD_ARGUMENT: the options make no sense. NOT_FOUND: no such node. NO_ROOM: the switch's tables
 * or the rack's memory.
 *
 * Pointers:
 * `options` points to options whose pointers are as their counts say; `flow` may be written.
 */
rackweave_status rackweave_flow_create(const struct rackweave_rack *rack,
                                       const struct rackweave_flow_options *options,
                                       struct rackweave_flow **flow);

/**
 * Ends a handle of a flow. The flow goes when its ends are destroyed, too; it is broken off if it
 * has not ended by then. NULL is allowed.
 */
rackweave_status rackweave_flow_destroy(struct rackweave_flow *flow);

/**
 * Breaks a flow off: its ends see ABORTED when they have taken what is there.
 */
rackweave_status rackweave_flow_close(const struct rackweave_flow *flow);

/**
 * How a flow is doing: OK while it runs, END when all was delivered, ABORTED if it was broken off
 * (the detail text says why).
 */
rackweave_status rackweave_flow_state(const struct rackweave_flow *flow);

/**
 * Makes a handle of a producer's ring. `producer` counts as the options of the flow did. In a
 * shuffle, a producer has a ring for each `consumer`; in other shapes one, and `consumer` is 0.
 *
 * NOT_FOUND: no such ring. IN_USE: it has a handle already.
 *
 * Pointers:
 * `end` may be written.
 */
rackweave_status rackweave_flow_producer_create(const struct rackweave_flow *flow,
                                                uint32_t producer,
                                                uint32_t consumer,
                                                struct rackweave_flow_producer **end);

/**
 * Ends a handle of a producer's ring. Items that were pushed are delivered all the same; the
 * stream does not end by it. NULL is allowed.
 */
rackweave_status rackweave_flow_producer_destroy(struct rackweave_flow_producer *producer);

/**
 * Copies an item into the ring; bytes behind it in its slot are zero. PENDING: the ring is full,
 * try again when the rack has been driven.
 *
 * TOO_LONG: an item has fewer bytes. ABORTED: the flow was broken off. FINISHED: so it was.
 *
 * Pointers:
 * `item` has `length` bytes.
 */
rackweave_status rackweave_flow_producer_try_push(struct rackweave_flow_producer *producer,
                                                  const uint8_t *item,
                                                  size_t length);

/**
 * As `rackweave_flow_producer_try_push`, but waits for space, at most `timeout_ns` nanoseconds,
 * and drives the rack meanwhile.
 *
 * Pointers:
 * `item` has `length` bytes.
 */
rackweave_status rackweave_flow_producer_push(struct rackweave_flow_producer *producer,
                                              const uint8_t *item,
                                              size_t length,
                                              uint64_t timeout_ns);

/**
 * Free slots, one behind the other, to be filled and then committed: at least one and at most
 * `items_max`. `slots` points to `items` times the bytes of an item, until the next call with this
 * handle. PENDING: the ring is full.
 *
 * Pointers:
 * `slots` and `items` may be written.
 */
rackweave_status rackweave_flow_producer_try_reserve(struct rackweave_flow_producer *producer,
                                                     uint32_t items_max,
                                                     uint8_t **slots,
                                                     uint32_t *items);

/**
 * Gives the first `items` reserved slots to the switch. BAD_ARGUMENT: fewer are reserved.
 */
rackweave_status rackweave_flow_producer_commit(struct rackweave_flow_producer *producer,
                                                uint32_t items);

/**
 * No more items will come through this ring. The stream of a consumer ends when all rings to it
 * have said so.
 */
rackweave_status rackweave_flow_producer_finish(struct rackweave_flow_producer *producer);

/**
 * Whether consumers have been shown every item: OK, or PENDING, or ABORTED.
 */
rackweave_status rackweave_flow_producer_delivered(struct rackweave_flow_producer *producer);

/**
 * Makes a handle of a consumer's ring. `consumer` counts as the options of the flow did.
 *
 * NOT_FOUND: no such ring. IN_USE: it has a handle already.
 *
 * Pointers:
 * `end` may be written.
 */
rackweave_status rackweave_flow_consumer_create(const struct rackweave_flow *flow,
                                                uint32_t consumer,
                                                struct rackweave_flow_consumer **end);

/**
 * Ends a handle of a consumer's ring. What was not taken stays, for the next handle. NULL is
 * allowed.
 */
rackweave_status rackweave_flow_consumer_destroy(struct rackweave_flow_consumer *consumer);

/**
 * Copies the next item out and frees its slot. PENDING: there is none yet. END: no more come.
 *
 * TOO_LONG: `capacity` is less than the bytes of an item. ABORTED: the flow was broken off, and
 * what had been delivered was taken.
 *
 * Pointers:
 * `item` has `capacity` bytes.
 */
rackweave_status rackweave_flow_consumer_try_pop(struct rackweave_flow_consumer *consumer,
                                                 uint8_t *item,
                                                 size_t capacity);

/**
 * As `rackweave_flow_consumer_try_pop`, but waits for an item, at most `timeout_ns` nanoseconds,
 * and drives the rack meanwhile.
 *
 * Pointers:
 * `item` has `capacity` bytes.
 */
rackweave_status rackweave_flow_consumer_pop(struct rackweave_flow_consumer *consumer,
                                             uint8_t *item,
                                             size_t capacity,
                                             uint64_t timeout_ns);

/**
 * The next items in place, one behind the other: at least one and at most `items_max`. `bytes`
 * points to `items` times the bytes of an item, until they are released or something is popped.
 * PENDING: there is none yet. END: no more come.
 *
 * Pointers:
 * `bytes` and `items` may be written.
 */
rackweave_status rackweave_flow_consumer_try_peek(struct rackweave_flow_consumer *consumer,
                                                  uint32_t items_max,
                                                  const uint8_t **bytes,
                                                  uint32_t *items);

/**
 * Frees the slots of the first `items` items that were peeked at. BAD_ARGUMENT: fewer were.
 */
rackweave_status rackweave_flow_consumer_release(struct rackweave_flow_consumer *consumer,
                                                 uint32_t items);

/**
 * Gives a rack a page directory and a store of pages. A rack has one at most, for as long as it
 * lives. All compute nodes get buffer frames. On a rack of processes, if the node with the NVMe
 * target is in another process, the stores are those of the rack's configuration, `path` and
 * `pages` are not used, and a directory that another program has made is found.
 *
 * EXISTS: the rack has one, or the file is there already. NOT_FOUND: no such node. REFUSED: the
 * switch of this rack has no page directory. NO_ROOM: the switch, a NIC or the rack's memory.
 * SYSTEM, CORRUPT: the file.
 *
 * Pointers:
 * `options` is NULL or points to options whose texts end with a zero byte; `pages` may be written.
 */
rackweave_status rackweave_pages_create(const struct rackweave_rack *rack,
                                        const struct rackweave_pages_options *options,
                                        struct rackweave_pages **pages);

/**
 * Ends a handle of a page directory. It stays in the rack. NULL is allowed.
 */
rackweave_status rackweave_pages_destroy(struct rackweave_pages *pages);

/**
 * How many pages the store has, the superblock (page 0) included, and the bytes of a page,
 * including its header: `rackweave_page_guard_data` gives what is left of them. Both may be NULL.
 *
 * Pointers:
 * `pages_max` and `page_bytes` are NULL or may be written.
 */
rackweave_status rackweave_pages_size(const struct rackweave_pages *pages,
                                      uint64_t *pages_max,
                                      uint32_t *page_bytes);

/**
 * Ends a guard. The page's latch, if it was fixed exclusively, is given back with its change by
 * whichever page store of the node polls, waits or settles next, and nobody hears whether the
 * change was taken: `rackweave_page_guard_commit` says so. Pointers to the page's bytes are of no
 * use from now on. NULL is allowed.
 */
rackweave_status rackweave_page_guard_destroy(struct rackweave_page_guard *guard);

/**
 * The page's number and the version that was fixed. Both may be NULL.
 *
 * Pointers:
 * `page` and `version` are NULL or may be written.
 */
rackweave_status rackweave_page_guard_page(const struct rackweave_page_guard *guard,
                                           uint64_t *page,
                                           uint64_t *version);

/**
 * The page's bytes, to be read until the guard ends.
 *
 * Pointers:
 * `data` and `length` may be written.
 */
rackweave_status rackweave_page_guard_data(const struct rackweave_page_guard *guard,
                                           const uint8_t **data,
                                           size_t *length);

/**
 * The page's bytes, to be changed until the guard ends: the page gets a new version by this call,
 * whether or not something is written.
 *
 * REFUSED: the page is fixed shared.
 *
 * Pointers:
 * `data` and `length` may be written.
 */
rackweave_status rackweave_page_guard_data_mut(struct rackweave_page_guard *guard,
                                               uint8_t **data,
                                               size_t *length);

/**
 * Ends a guard, publishes the change and opens the latch, waiting at most `timeout_ns` nanoseconds
 * for the directory's answer: OK means that nobody sees an older version any more. The guard has
 * ended in every case but a bad argument.
 *
 * LOST: the change was not taken, since the latch had been taken away from this node. CLOSED: the
 * same, and this node was declared dead, as for `rackweave_page_store_fix`. REFUSED: the same,
 * since the store was closed to this node. TIMED_OUT: nobody has answered, or the engine's log is
 * behind; the page stays latched, and its page store goes on asking when it is polled.
 */
rackweave_status rackweave_page_guard_commit(struct rackweave_page_guard *guard,
                                             uint64_t timeout_ns);

/**
 * Whether the version that a guard has is still the newest.
 *
 * Pointers:
 * `newest` may be written.
 */
rackweave_status rackweave_page_guard_is_newest(const struct rackweave_page_guard *guard,
                                                bool *newest);

/**
 * Makes a page store: a worker on a compute node. `format` or `open` comes first then, on one page
 * store of the rack `format` or on each of them `open`.
 *
 * NOT_FOUND: no such node. REFUSED: it is no compute node. NO_ROOM: all its workers are taken.
 *
 * Pointers:
 * `store` may be written.
 */
rackweave_status rackweave_page_store_create(const struct rackweave_pages *pages,
                                             uint16_t node,
                                             struct rackweave_page_store **store);

/**
 * Ends a handle of a page store, after what is under way has ended: it waits for that, ten seconds
 * at most if nobody answers. It writes nothing home: see `rackweave_page_store_close`. Guards stay
 * as they are, and with the last of them the node has its worker back. NULL is allowed.
 */
rackweave_status rackweave_page_store_destroy(struct rackweave_page_store *store);

/**
 * Makes a new store, whatever was there before: all pages but its own are free. `identity` is a
 * random number by which this store is distinguished from others. No page may be fixed anywhere.
 */
rackweave_status rackweave_page_store_format(struct rackweave_page_store *store, uint64_t identity);

/**
 * Opens the store that is there. NOT_FOUND: it was never formatted. CORRUPT: it is damaged, or
 * none of ours. REFUSED: it has another format or pages of another size than the rack.
 */
rackweave_status rackweave_page_store_open(struct rackweave_page_store *store);

/**
 * Gives back pages that were taken from the store and not used, writes everything home that is
 * changed on this node, and says in the superblock that the store was closed. To be called on one
 * page store of the rack, when the others have been flushed and destroyed.
 */
rackweave_status rackweave_page_store_close(struct rackweave_page_store *store);

/**
 * A page for the caller alone, its bytes zero. NO_ROOM: all are in use. REFUSED: no store is open.
 * Otherwise as for `rackweave_page_store_fix` and `_flush`, of the map of pages in use.
 *
 * Pointers:
 * `number` may be written.
 */
rackweave_status rackweave_page_store_allocate(struct rackweave_page_store *store,
                                               uint64_t *number);

/**
 * Gives a page back; its content is gone. REFUSED: it is free already. CONFLICT: this page store
 * has fixed it.
 */
rackweave_status rackweave_page_store_free(struct rackweave_page_store *store, uint64_t number);

/**
 * Fixes a page, waiting at most `timeout_ns` nanoseconds, and drives the rack meanwhile. `mode` is
 * a `rackweave_page_mode`.
 *
 * NOT_FOUND: beyond the end of the store. CONFLICT: this page store has fixed it already, not both
 * times shared. REFUSED: the store is not open to this node. CLOSED: this node was declared dead,
 * and what only it had is lost; destroy this page store and create another one. LOST, CORRUPT,
 * NO_ROOM, SYSTEM, GONE, TIMED_OUT: as they say.
 *
 * Pointers:
 * `guard` may be written.
 */
rackweave_status rackweave_page_store_fix(struct rackweave_page_store *store,
                                          uint64_t number,
                                          uint32_t mode,
                                          uint64_t timeout_ns,
                                          struct rackweave_page_guard **guard);

/**
 * Begins to fix a page; `rackweave_page_store_poll` gets on with it, and
 * `rackweave_page_store_take_fix` or `_abandon_fix` ends it. Failures as for
 * `rackweave_page_store_fix`, when it is taken, with a time limit of ten seconds; CONFLICT at
 * once.
 *
 * Pointers:
 * `ticket` may be written.
 */
rackweave_status rackweave_page_store_submit_fix(struct rackweave_page_store *store,
                                                 uint64_t number,
                                                 uint32_t mode,
                                                 uint64_t *ticket);

/**
 * What came of a fix. PENDING: it is under way. NOT_FOUND: also of an unknown ticket.
 *
 * Pointers:
 * `guard` may be written.
 */
rackweave_status rackweave_page_store_take_fix(struct rackweave_page_store *store,
                                               uint64_t ticket,
                                               struct rackweave_page_guard **guard);

/**
 * Nobody will take what comes of a fix.
 */
rackweave_status rackweave_page_store_abandon_fix(struct rackweave_page_store *store,
                                                  uint64_t ticket);

/**
 * Begins to bring a page to this node. What comes of it is not reported.
 */
rackweave_status rackweave_page_store_prefetch(struct rackweave_page_store *store, uint64_t number);

/**
 * Gets on with what is under way, once. OK if anything happened, else PENDING.
 */
rackweave_status rackweave_page_store_poll(struct rackweave_page_store *store);

/**
 * Waits until nothing is under way and the latches of all destroyed guards have been given back,
 * ten seconds at most. To be called before a thread rests. GONE: the directory does not answer.
 * TIMED_OUT: the engine's log is behind, or a fix that was submitted waits for somebody's latch.
 * In both cases latches are given back when a page store of the node is polled.
 */
rackweave_status rackweave_page_store_settle(struct rackweave_page_store *store);

/**
 * Writes home all pages of this node that are changed and unfixed, and waits for that. `written`,
 * how many, may be NULL.
 *
 * CONFLICT: this page store has fixed one of them exclusively. TIMED_OUT: somebody else has, for
 * five seconds. LOST, NO_ROOM, SYSTEM, REFUSED: of the first that could not be written. In all
 * these cases the others were written. SYSTEM, GONE: also if storage does not confirm that they
 * are durable. GONE: nobody answers. CLOSED: as for `rackweave_page_store_fix`.
 *
 * Pointers:
 * `written` is NULL or may be written.
 */
rackweave_status rackweave_page_store_flush(struct rackweave_page_store *store, uint64_t *written);

/**
 * Begins what `rackweave_page_store_flush` does.
 *
 * Pointers:
 * `ticket` may be written.
 */
rackweave_status rackweave_page_store_submit_flush(struct rackweave_page_store *store,
                                                   uint64_t *ticket);

/**
 * What came of a flush: how many pages were written. PENDING: it is under way.
 *
 * Pointers:
 * `written` may be written.
 */
rackweave_status rackweave_page_store_take_flush(struct rackweave_page_store *store,
                                                 uint64_t ticket,
                                                 uint64_t *written);

/**
 * Makes an index, which is empty.
 *
 * BAD_ARGUMENT: the options make no sense. NOT_FOUND: no such node. NO_ROOM: the rack's memory, or
 * a NIC.
 *
 * Pointers:
 * `options` is NULL or points to options whose texts end with a zero byte; `index` may be written.
 */
rackweave_status rackweave_index_create(const struct rackweave_rack *rack,
                                        const struct rackweave_index_options *options,
                                        struct rackweave_index **index);

/**
 * Ends a handle of an index. The index goes with its last client. NULL is allowed.
 */
rackweave_status rackweave_index_destroy(struct rackweave_index *index);

/**
 * Has the index's server carry out requests that have come: OK if there were any, else PENDING.
 * Clients that wait or poll do this themselves; a program may give the server a thread of its own
 * that calls this and `rackweave_rack_drive` in turn.
 */
rackweave_status rackweave_index_serve(const struct rackweave_index *index);

/**
 * Makes a client on a node, connected to the index's server. `access` is a
 * `rackweave_index_access`.
 *
 * NOT_FOUND: no such node. NO_ROOM: the server has as many clients as it may have, or a NIC or the
 * rack's memory has no space.
 *
 * Pointers:
 * `client` may be written.
 */
rackweave_status rackweave_index_client_create(const struct rackweave_index *index,
                                               uint16_t node,
                                               uint32_t access,
                                               struct rackweave_index_client **client);

/**
 * Ends a client. What is under way is not waited for: a write may or may not be done. NULL is
 * allowed.
 */
rackweave_status rackweave_index_client_destroy(struct rackweave_index_client *client);

/**
 * Begins an operation. `rackweave_index_client_poll` gets on with it and gives its reply.
 *
 * NO_ROOM: 64 are under way. TOO_LONG: the value. BAD_ARGUMENT: the operation makes no sense.
 *
 * Pointers:
 * `operation` points to an operation whose value is as its length says; `ticket` may be written.
 */
rackweave_status rackweave_index_client_submit(struct rackweave_index_client *client,
                                               const struct rackweave_index_operation *operation,
                                               uint64_t *ticket);

/**
 * Gets on with everything and gives the next reply, of any operation. OK: there is one, and
 * `reply->status` says how that operation ended. PENDING: there is none yet; drive the rack.
 *
 * Pointers:
 * `reply` may be written.
 */
rackweave_status rackweave_index_client_poll(struct rackweave_index_client *client,
                                             struct rackweave_index_reply *reply);

/**
 * Submits an operation, waits for its reply, at most `timeout_ns` nanoseconds, and drives the rack
 * meanwhile. What `reply->status` says below 16 is there for the caller to see; errors are the
 * call's. TIMED_OUT: a write may or may not be done.
 *
 * Pointers:
 * `operation` points to an operation whose value is as its length says; `reply` may be written.
 */
rackweave_status rackweave_index_client_execute(struct rackweave_index_client *client,
                                                const struct rackweave_index_operation *operation,
                                                uint64_t timeout_ns,
                                                struct rackweave_index_reply *reply);

/**
 * The value of a key, copied into `value`; `length`, which may be NULL, is how long it is.
 * NOT_FOUND: the key has none. TOO_LONG: it has more than `capacity` bytes; nothing was copied.
 *
 * Pointers:
 * `value` has `capacity` bytes; `length` is NULL or may be written.
 */
rackweave_status rackweave_index_client_lookup(struct rackweave_index_client *client,
                                               uint64_t key,
                                               uint64_t timeout_ns,
                                               uint8_t *value,
                                               size_t capacity,
                                               size_t *length);

/**
 * Gives a key that has none a value. EXISTS: it has one, which stays as it is.
 *
 * Pointers:
 * `value` has `length` bytes.
 */
rackweave_status rackweave_index_client_insert(struct rackweave_index_client *client,
                                               uint64_t key,
                                               const uint8_t *value,
                                               size_t length,
                                               uint64_t timeout_ns);

/**
 * Gives a key that has a value another one. NOT_FOUND: it has none, and gets none.
 *
 * Pointers:
 * `value` has `length` bytes.
 */
rackweave_status rackweave_index_client_update(struct rackweave_index_client *client,
                                               uint64_t key,
                                               const uint8_t *value,
                                               size_t length,
                                               uint64_t timeout_ns);

/**
 * Gives a key a value, whether or not it has one.
 *
 * Pointers:
 * `value` has `length` bytes.
 */
rackweave_status rackweave_index_client_put(struct rackweave_index_client *client,
                                            uint64_t key,
                                            const uint8_t *value,
                                            size_t length,
                                            uint64_t timeout_ns);

/**
 * Takes a key's value away. NOT_FOUND: it has none.
 */
rackweave_status rackweave_index_client_delete(struct rackweave_index_client *client,
                                               uint64_t key,
                                               uint64_t timeout_ns);

/**
 * Makes a sequencer in the switch, whose first number is `first`.
 *
 * NO_ROOM: the switch of this rack has no space for one (switch.sequencers).
 *
 * Pointers:
 * `sequencer` may be written.
 */
rackweave_status rackweave_sequencer_create(const struct rackweave_rack *rack,
                                            uint64_t first,
                                            struct rackweave_sequencer **sequencer);

/**
 * Ends a handle of a sequencer. The sequencer goes with its last client. NULL is allowed.
 */
rackweave_status rackweave_sequencer_destroy(struct rackweave_sequencer *sequencer);

/**
 * A number of which, and of all above it, none was ever handed out: to be kept and given to the
 * next sequencer as its first, when the rack ends.
 *
 * Pointers:
 * `reserved` may be written.
 */
rackweave_status rackweave_sequencer_reserved(const struct rackweave_sequencer *sequencer,
                                              uint64_t *reserved);

/**
 * Makes a client on a node. NOT_FOUND: no such node. NO_ROOM: the switch or a NIC.
 *
 * Pointers:
 * `client` may be written.
 */
rackweave_status rackweave_sequencer_client_create(const struct rackweave_sequencer *sequencer,
                                                   uint16_t node,
                                                   struct rackweave_sequencer_client **client);

/**
 * Ends a client. Numbers that were asked for and not polled are a gap. NULL is allowed.
 */
rackweave_status rackweave_sequencer_client_destroy(struct rackweave_sequencer_client *client);

/**
 * Connects a client anew whose calls end with GONE. What was under way has failed.
 */
rackweave_status rackweave_sequencer_client_reconnect(struct rackweave_sequencer_client *client);

/**
 * `count` numbers, of which `first` is the first, that nobody else ever gets. Waits for them, at
 * most `timeout_ns` nanoseconds, and drives the rack meanwhile.
 *
 * BAD_ARGUMENT: no or too many numbers. GONE: the connection broke; connect anew. NO_ROOM: all
 * numbers were handed out. TIMED_OUT: numbers may be used up, as a gap.
 *
 * Pointers:
 * `first` may be written.
 */
rackweave_status rackweave_sequencer_client_next(struct rackweave_sequencer_client *client,
                                                 uint64_t count,
                                                 uint64_t timeout_ns,
                                                 uint64_t *first);

/**
 * Begins to ask for `count` numbers. Nothing is sent before the next poll, so calls that are begun
 * together travel together. NO_ROOM: too many are under way.
 *
 * Pointers:
 * `ticket` may be written.
 */
rackweave_status rackweave_sequencer_client_submit(struct rackweave_sequencer_client *client,
                                                   uint64_t count,
                                                   uint64_t *ticket);

/**
 * The next call that has ended: which, and its numbers. PENDING: none has yet; drive the rack.
 * With an error, `ticket` says which call has failed.
 *
 * Pointers:
 * All three may be written.
 */
rackweave_status rackweave_sequencer_client_poll(struct rackweave_sequencer_client *client,
                                                 uint64_t *ticket,
                                                 uint64_t *first,
                                                 uint64_t *count);

/**
 * Has a storage node listen at an address, such as "127.0.0.1:7000"; port 0 takes a free one.
 * `options` may be NULL.
 *
 * BAD_ARGUMENT: address or options make no sense. NOT_FOUND: no such node. SYSTEM: the system does
 * not let it listen there.
 *
 * Pointers:
 * `address` ends with a zero byte; `options` is NULL or points to options; `listener` may be
 * written.
 */
rackweave_status rackweave_listener_create(const struct rackweave_rack *rack,
                                           uint16_t node,
                                           const char *address,
                                           const struct rackweave_messaging_options *options,
                                           struct rackweave_listener **listener);

/**
 * Stops listening. Connections that were accepted stay; others are closed. NULL is allowed.
 */
rackweave_status rackweave_listener_destroy(struct rackweave_listener *listener);

/**
 * Where a listener listens, with its port, as `rackweave_connection_dial` takes it: copied as
 * `rackweave_error_detail_copy` copies.
 *
 * Pointers:
 * `buffer` has `capacity` bytes; `length` is NULL or may be written.
 */
rackweave_status rackweave_listener_address(const struct rackweave_listener *listener,
                                            char *buffer,
                                            size_t capacity,
                                            size_t *length);

/**
 * Gets on with handshakes and gives a connection that was made, if there is one. PENDING: none
 * yet.
 *
 * Pointers:
 * `connection` may be written.
 */
rackweave_status rackweave_listener_try_accept(struct rackweave_listener *listener,
                                               struct rackweave_connection **connection);

/**
 * Waits for a connection, at most `timeout_ns` nanoseconds, and drives the rack meanwhile.
 *
 * Pointers:
 * `connection` may be written.
 */
rackweave_status rackweave_listener_accept(struct rackweave_listener *listener,
                                           uint64_t timeout_ns,
                                           struct rackweave_connection **connection);

/**
 * Begins to connect a compute node to the storage node that listens at an address, and
 * gives up after `timeout_ns` nanoseconds; `rackweave_connection_poll` gets on with it. `options`
 * may be NULL.
 *
 * BAD_ARGUMENT: address or options make no sense. NOT_FOUND: no such node. GONE: no way to that
 * address.
 *
 * Pointers:
 * `address` ends with a zero byte; `options` is NULL or points to options; `connection` may be
 * written.
 */
rackweave_status rackweave_connection_submit_dial(const struct rackweave_rack *rack,
                                                  uint16_t node,
                                                  const char *address,
                                                  const struct rackweave_messaging_options *options,
                                                  uint64_t timeout_ns,
                                                  struct rackweave_connection **connection);

/**
 * Gets on with what `rackweave_connection_submit_dial` began. OK: it is connected. PENDING: not
 * yet; drive the rack. TIMED_OUT: nobody answered in time. GONE: nobody listens there. REFUSED:
 * the other side did, and the detail text says why. NO_ROOM: the rack's memory or the NIC.
 */
rackweave_status rackweave_connection_poll(struct rackweave_connection *connection);

/**
 * Connects a compute node, as `rackweave_connection_submit_dial` and `rackweave_connection_poll`,
 * and waits for that. The listener must be in another thread, or nobody would answer.
 *
 * Pointers:
 * As for `rackweave_connection_submit_dial`.
 */
rackweave_status rackweave_connection_dial(const struct rackweave_rack *rack,
                                           uint16_t node,
                                           const char *address,
                                           const struct rackweave_messaging_options *options,
                                           uint64_t timeout_ns,
                                           struct rackweave_connection **connection);

/**
 * Ends a handle of a connection. Ends that were taken go on; if one was not, the connection is
 * closed by this. NULL is allowed.
 */
rackweave_status rackweave_connection_destroy(struct rackweave_connection *connection);

/**
 * How many channels lead to the peer (`senders`) and here (`receivers`). Both may be NULL.
 * REFUSED: it is not connected yet.
 *
 * Pointers:
 * Both are NULL or may be written.
 */
rackweave_status rackweave_connection_channels(const struct rackweave_connection *connection,
                                               uint32_t *senders,
                                               uint32_t *receivers);

/**
 * Takes the sending end of a channel of a connection, counted from 0. Each can be taken once.
 *
 * NOT_FOUND: no such channel. IN_USE: it was taken before. REFUSED: not connected yet.
 *
 * Pointers:
 * `sender` may be written.
 */
rackweave_status rackweave_sender_create(struct rackweave_connection *connection,
                                         uint32_t channel,
                                         struct rackweave_sender **sender);

/**
 * Ends a sender. If it has finished and everything was released, that is all; else the connection
 * is closed. NULL is allowed.
 */
rackweave_status rackweave_sender_destroy(struct rackweave_sender *sender);

/**
 * The longest message, and the longest that `rackweave_sender_try_send` takes. Both may be NULL.
 *
 * Pointers:
 * Both are NULL or may be written.
 */
rackweave_status rackweave_sender_limits(const struct rackweave_sender *sender,
                                         uint64_t *message_max,
                                         size_t *piece_max);

/**
 * Copies a message that fits one piece into the send buffer. It is sent at once, or, while others
 * are under way, by a later `rackweave_sender_poll`, together with those that follow; with
 * `rackweave_sender_delivered` it is not left there. PENDING: there is no space now; poll and
 * drive the rack.
 *
 * TOO_LONG: it does not fit one piece. CLOSED, GONE: the connection is closed, or broke. FINISHED,
 * REFUSED: after `finish`, or within a message that was begun.
 *
 * Pointers:
 * `bytes` has `length` bytes.
 */
rackweave_status rackweave_sender_try_send(struct rackweave_sender *sender,
                                           uint32_t opcode,
                                           const uint8_t *bytes,
                                           size_t length);

/**
 * Sends a message of any length and waits until it is in the peer's memory, at most `timeout_ns`
 * nanoseconds; drives the rack meanwhile. The bytes are copied.
 *
 * TIMED_OUT: a message that fits one piece was either not taken, or is there but not yet at the
 * peer (`rackweave_sender_get_counters` tells how many were taken); a longer one was begun, and if
 * `rackweave_sender_remaining` is not 0, go on with the last so many bytes by
 * `rackweave_sender_write`, or close. Others as for `rackweave_sender_try_send`.
 *
 * Pointers:
 * `bytes` has `length` bytes.
 */
rackweave_status rackweave_sender_send(struct rackweave_sender *sender,
                                       uint32_t opcode,
                                       const uint8_t *bytes,
                                       size_t length,
                                       uint64_t timeout_ns);

/**
 * Sends bytes of a region as a message, without copying them, and waits until they are in the
 * peer's memory. The region is the one that the options of the connection named.
 *
 * TIMED_OUT: the connection can only be closed. BAD_ARGUMENT: another region, or not all bytes lie
 * in it.
 */
rackweave_status rackweave_sender_send_region(struct rackweave_sender *sender,
                                              uint32_t opcode,
                                              const struct rackweave_region *region,
                                              uint64_t offset,
                                              uint64_t length,
                                              uint64_t timeout_ns);

/**
 * Begins a message of `total` bytes, which are written afterwards. REFUSED: the one before lacks
 * bytes. TOO_LONG, FINISHED, CLOSED, GONE: as they say.
 */
rackweave_status rackweave_sender_begin(struct rackweave_sender *sender,
                                        uint32_t opcode,
                                        uint64_t total);

/**
 * Copies as many of the next bytes of the message begun as there is space for. PENDING: none;
 * poll and drive the rack.
 *
 * Pointers:
 * `bytes` has `length` bytes; `written` may be written.
 */
rackweave_status rackweave_sender_write(struct rackweave_sender *sender,
                                        const uint8_t *bytes,
                                        size_t length,
                                        size_t *written);

/**
 * Bytes of the message begun that are still to be written.
 *
 * Pointers:
 * `remaining` may be written.
 */
rackweave_status rackweave_sender_remaining(const struct rackweave_sender *sender,
                                            uint64_t *remaining);

/**
 * Posts what is ready. OK if anything happened, else PENDING. CLOSED, GONE: as they say.
 */
rackweave_status rackweave_sender_poll(struct rackweave_sender *sender);

/**
 * Waits until everything sent is in the peer's memory, at most `timeout_ns` nanoseconds.
 */
rackweave_status rackweave_sender_delivered(struct rackweave_sender *sender, uint64_t timeout_ns);

/**
 * Waits until the receiver has released everything sent, at most `timeout_ns` nanoseconds.
 */
rackweave_status rackweave_sender_consumed(struct rackweave_sender *sender, uint64_t timeout_ns);

/**
 * Nothing follows: the receiver sees END behind the last message. Does not wait:
 * `rackweave_sender_consumed` does. REFUSED: a message lacks bytes.
 */
rackweave_status rackweave_sender_finish(struct rackweave_sender *sender);

/**
 * Closes the connection for a reason, a `rackweave_close_reason`, which the peer learns.
 */
rackweave_status rackweave_sender_close(struct rackweave_sender *sender, uint32_t reason);

/**
 * Who closed the connection, a `rackweave_closed_by`, and why, a `rackweave_close_reason`. Both
 * may be NULL. PENDING: it is open.
 *
 * Pointers:
 * Both are NULL or may be written.
 */
rackweave_status rackweave_sender_closed(const struct rackweave_sender *sender,
                                         uint32_t *by,
                                         uint32_t *reason);

/**
 * What a sender has sent.
 *
 * Pointers:
 * `counters` may be written.
 */
rackweave_status rackweave_sender_get_counters(const struct rackweave_sender *sender,
                                               struct rackweave_channel_counters *counters);

/**
 * Takes the receiving end of a channel of a connection, counted from 0. Each can be taken once.
 *
 * NOT_FOUND: no such channel. IN_USE: it was taken before. REFUSED: not connected yet.
 *
 * Pointers:
 * `receiver` may be written.
 */
rackweave_status rackweave_receiver_create(struct rackweave_connection *connection,
                                           uint32_t channel,
                                           struct rackweave_receiver **receiver);

/**
 * Ends a receiver. If the sender has finished and everything was released, that is all; else the
 * connection is closed. NULL is allowed.
 */
rackweave_status rackweave_receiver_destroy(struct rackweave_receiver *receiver);

/**
 * The oldest piece that was not released, where it lies. PENDING: none has come yet; drive the
 * rack. END: the sender has finished. CLOSED, GONE: the connection is closed, or broke, and what
 * had come was taken.
 *
 * Pointers:
 * `piece` may be written.
 */
rackweave_status rackweave_receiver_try_peek(struct rackweave_receiver *receiver,
                                             struct rackweave_piece *piece);

/**
 * As `rackweave_receiver_try_peek`, but waits for a piece, at most `timeout_ns` nanoseconds, and
 * drives the rack meanwhile.
 *
 * Pointers:
 * `piece` may be written.
 */
rackweave_status rackweave_receiver_peek(struct rackweave_receiver *receiver,
                                         uint64_t timeout_ns,
                                         struct rackweave_piece *piece);

/**
 * Frees the piece that was peeked at last. REFUSED: none was.
 */
rackweave_status rackweave_receiver_release(struct rackweave_receiver *receiver);

/**
 * Waits for a whole message, at most `timeout_ns` nanoseconds, and copies it out.
 *
 * TOO_LONG: it has more than `capacity` bytes; `info` says how many, and nothing of it was taken
 * unless an earlier call did. TIMED_OUT: a part may have been copied; call again with the same
 * buffer. Others as for `rackweave_receiver_try_peek`.
 *
 * Pointers:
 * `buffer` has `capacity` bytes; `info` may be written.
 */
rackweave_status rackweave_receiver_receive(struct rackweave_receiver *receiver,
                                            uint64_t timeout_ns,
                                            uint8_t *buffer,
                                            size_t capacity,
                                            struct rackweave_message_info *info);

/**
 * Closes the connection for a reason, a `rackweave_close_reason`, which the peer learns.
 */
rackweave_status rackweave_receiver_close(struct rackweave_receiver *receiver, uint32_t reason);

/**
 * Who closed the connection, a `rackweave_closed_by`, and why, a `rackweave_close_reason`. Both
 * may be NULL. PENDING: it is open.
 *
 * Pointers:
 * Both are NULL or may be written.
 */
rackweave_status rackweave_receiver_closed(const struct rackweave_receiver *receiver,
                                           uint32_t *by,
                                           uint32_t *reason);

/**
 * What a receiver has taken.
 *
 * Pointers:
 * `counters` may be written.
 */
rackweave_status rackweave_receiver_get_counters(const struct rackweave_receiver *receiver,
                                                 struct rackweave_channel_counters *counters);

/**
 * Makes a catalogue of up to `columns_max` columns.
 *
 * Pointers:
 * `catalogue` may be written.
 */
rackweave_status rackweave_catalogue_create(const struct rackweave_rack *rack,
                                            size_t columns_max,
                                            struct rackweave_catalogue **catalogue);

/**
 * Ends a handle of a catalogue. Servers go on with it. NULL is allowed.
 */
rackweave_status rackweave_catalogue_destroy(struct rackweave_catalogue *catalogue);

/**
 * Copies a column into the rack's memory, and serves it from now on.
 *
 * EXISTS: the catalogue has one of this name. BAD_ARGUMENT: name or shape make no sense. NO_ROOM:
 * the rack's `memory_limit`, or the catalogue is full.
 *
 * Pointers:
 * `name` ends with a zero byte. `column` points to a column whose buffers are as long as its shape
 * says.
 */
rackweave_status rackweave_catalogue_add(const struct rackweave_catalogue *catalogue,
                                         const char *name,
                                         const struct rackweave_column_data *column);

/**
 * Serves a column no longer. An answer that is being sent is completed.
 *
 * NOT_FOUND: there is none of this name.
 *
 * Pointers:
 * `name` ends with a zero byte.
 */
rackweave_status rackweave_catalogue_remove(const struct rackweave_catalogue *catalogue,
                                            const char *name);

/**
 * Serves the present and future columns of a catalogue over a connection, whose ends belong to the
 * server from now on: none of them may have been taken.
 *
 * IN_USE: an end was taken before. REFUSED: not connected yet.
 *
 * Pointers:
 * `server` may be written.
 */
rackweave_status rackweave_column_server_create(struct rackweave_connection *connection,
                                                const struct rackweave_catalogue *catalogue,
                                                struct rackweave_column_server **server);

/**
 * Closes the connection. NULL is allowed.
 */
rackweave_status rackweave_column_server_destroy(struct rackweave_column_server *server);

/**
 * Takes requests and gets on with answers. OK: something was done. PENDING: nothing was to do;
 * drive the rack. END: the reader has finished and has everything. CLOSED, GONE: the connection is
 * closed, or broken.
 */
rackweave_status rackweave_column_server_poll(struct rackweave_column_server *server);

/**
 * Serves until the reader has finished and has everything (OK), at most `timeout_ns` nanoseconds.
 * CLOSED, GONE: the connection is closed, or broken.
 */
rackweave_status rackweave_column_server_serve(struct rackweave_column_server *server,
                                               uint64_t timeout_ns);

/**
 * Requests columns over a connection, whose ends belong to the reader from now on: none of them
 * may have been taken. The other side is a column server.
 *
 * IN_USE: an end was taken before. REFUSED: not connected yet.
 *
 * Pointers:
 * `reader` may be written.
 */
rackweave_status rackweave_column_reader_create(struct rackweave_connection *connection,
                                                struct rackweave_column_reader **reader);

/**
 * Closes the connection. Columns that have arrived stay. NULL is allowed.
 */
rackweave_status rackweave_column_reader_destroy(struct rackweave_column_reader *reader);

/**
 * Fetches a column, and waits for it at most `timeout_ns` nanoseconds. The server must be in
 * another thread or process, or nobody would answer.
 *
 * NOT_FOUND: the server has none of this name. TOO_LONG, NO_ROOM: it is too large for this node.
 * CORRUPT: the server sent something else. CLOSED, GONE: the connection is closed, or broken.
 *
 * Pointers:
 * `name` ends with a zero byte; `column` may be written.
 */
rackweave_status rackweave_column_reader_fetch(struct rackweave_column_reader *reader,
                                               const char *name,
                                               uint64_t timeout_ns,
                                               struct rackweave_column **column);

/**
 * Begins to fetch a column, and tells a number for it. NO_ROOM: 32 are under way; poll first.
 *
 * Pointers:
 * `name` ends with a zero byte; `ticket` may be written.
 */
rackweave_status rackweave_column_reader_submit(struct rackweave_column_reader *reader,
                                                const char *name,
                                                uint64_t *ticket);

/**
 * Gives a column that `rackweave_column_reader_submit` began to fetch and its number, if one has
 * arrived. PENDING: none yet; drive the rack. Otherwise, as `rackweave_column_reader_fetch`, why
 * the column of this number does not come.
 *
 * Pointers:
 * `ticket` and `column` may be written.
 */
rackweave_status rackweave_column_reader_poll(struct rackweave_column_reader *reader,
                                              uint64_t *ticket,
                                              struct rackweave_column **column);

/**
 * Says that no more requests follow, and waits, at most `timeout_ns` nanoseconds, until the server
 * has heard it.
 *
 * REFUSED: columns are under way. CLOSED, GONE: the connection was closed before, or broke.
 */
rackweave_status rackweave_column_reader_finish(struct rackweave_column_reader *reader,
                                                uint64_t timeout_ns);

/**
 * Ends a handle of a column. Pointers into it are of no use from now on. NULL is allowed.
 */
rackweave_status rackweave_column_destroy(struct rackweave_column *column);

/**
 * The column's shape, and its buffers, at multiples of 64 bytes, until its handle is destroyed.
 *
 * Pointers:
 * `data` may be written.
 */
rackweave_status rackweave_column_get_data(const struct rackweave_column *column,
                                           struct rackweave_column_data *data);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RACKWEAVE_H */
