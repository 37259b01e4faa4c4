// The C++20 face of Rackweave: owners of the handles of rackweave.h, nothing else.
//
// Every class owns one handle, can be moved and not copied, and destroys its handle when it goes,
// in whatever order. What fails throws rackweave::error; what is only not there yet (PENDING, END,
// NOT_FOUND, TIMED_OUT) is reported by what is returned. rackweave.h says what each call does, which
// thread may call it and how long pointers are good; get() gives the handle for its calls.

#ifndef RACKWEAVE_HPP
#define RACKWEAVE_HPP

#include "rackweave.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rackweave {

using bytes = std::span<const std::uint8_t>;
using nanoseconds = std::chrono::nanoseconds;

// As a time limit: none.
inline constexpr nanoseconds forever = nanoseconds::max();

// A call that failed: its status, and what the library says about it.
class error : public std::exception {
 public:
  error(rackweave_status status, std::string detail)
      : status_(status), detail_(std::move(detail)) {}
  rackweave_status status() const noexcept { return status_; }
  const std::string& detail() const noexcept { return detail_; }
  const char* what() const noexcept override { return detail_.c_str(); }

 private:
  rackweave_status status_;
  std::string detail_;
};

namespace detail {

// What is no error, but no success either, has left no text of its own.
[[noreturn]] inline void fail(rackweave_status status) {
  const char* text = status < RACKWEAVE_STATUS_NULL_POINTER ? rackweave_status_text(status)
                                                           : rackweave_error_detail();
  throw error(status, text != nullptr ? text : "");
}

inline void check(rackweave_status status) {
  if (status != RACKWEAVE_STATUS_OK) fail(status);
}

// True: it was done. False: it is as `no` says, or as `other`.
inline bool done(rackweave_status status, rackweave_status no,
                 rackweave_status other = RACKWEAVE_STATUS_OK) {
  if (status == RACKWEAVE_STATUS_OK) return true;
  if (status == no || status == other) return false;
  fail(status);
}

inline std::uint64_t limit(nanoseconds time) {
  if (time == forever) return RACKWEAVE_FOREVER;
  return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

inline const char* text(const std::optional<std::string>& text) {
  return text ? text->c_str() : nullptr;
}

// A text that the library copies out.
template <typename Copy>
std::string copied(Copy copy) {
  std::string text(256, '\0');
  for (;;) {
    std::size_t length = 0;
    const rackweave_status status = copy(text.data(), text.size(), &length);
    if (status != RACKWEAVE_STATUS_TOO_LONG) {
      check(status);
      text.resize(length);
      return text;
    }
    text.resize(length + 1);
  }
}

// Owns a handle.
template <typename Handle, rackweave_status (*Destroy)(Handle*)>
class owner {
 public:
  owner() noexcept = default;
  explicit owner(Handle* handle) noexcept : handle_(handle) {}
  owner(owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  owner& operator=(owner&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  owner(const owner&) = delete;
  owner& operator=(const owner&) = delete;
  ~owner() { reset(); }

  Handle* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  Handle* release() noexcept { return std::exchange(handle_, nullptr); }
  // Destroys the handle now. One that is in use by another thread stays as it is.
  void reset() noexcept {
    if (handle_ != nullptr) static_cast<void>(Destroy(std::exchange(handle_, nullptr)));
  }

 private:
  Handle* handle_ = nullptr;
};

}  // namespace detail

// The version of the library that is loaded.
inline std::string_view version() { return rackweave_version(); }

// What was wrong with the last call of this thread that failed, as a copy.
inline std::string last_error() { return detail::copied(rackweave_error_detail_copy); }

class rack : public detail::owner<rackweave_rack, rackweave_rack_destroy> {
 public:
  // A rack with the library's default configuration.
  rack() : owner(make(nullptr)) {}
  // A rack from the text of a configuration.
  explicit rack(const std::string& toml) : owner(make(toml.c_str())) {}
  static rack from_file(const std::string& path) {
    rackweave_rack* made = nullptr;
    detail::check(rackweave_rack_create_from_file(path.c_str(), &made));
    return rack(made);
  }
  // A running rack of processes, as one of its nodes, or several: names with commas.
  static rack join(const std::string& path, const std::string& node) {
    rackweave_rack* made = nullptr;
    detail::check(rackweave_rack_join(path.c_str(), node.c_str(), &made));
    return rack(made);
  }
  // The same at a free place for guests.
  static rack join_guest(const std::string& path) {
    rackweave_rack* made = nullptr;
    detail::check(rackweave_rack_join(path.c_str(), nullptr, &made));
    return rack(made);
  }
  std::string config() const {
    return detail::copied(
        [this](auto... to) { return rackweave_rack_config(get(), to...); });
  }
  std::uint16_t node_count() const {
    std::uint16_t count = 0;
    detail::check(rackweave_rack_node_count(get(), &count));
    return count;
  }
  std::uint16_t node(std::string_view name) const {
    std::uint16_t node = 0;
    detail::check(rackweave_rack_node_by_name(get(), std::string(name).c_str(), &node));
    return node;
  }
  std::string node_name(std::uint16_t node) const {
    return detail::copied(
        [=, this](auto... to) { return rackweave_rack_node_name(get(), node, to...); });
  }
  rackweave_role node_role(std::uint16_t node) const {
    rackweave_role role{};
    detail::check(rackweave_rack_node_role(get(), node, &role));
    return role;
  }
  bool drive() const {
    bool moved = false;
    detail::check(rackweave_rack_drive(get(), &moved));
    return moved;
  }
  void relax(std::uint32_t idle_rounds) const {
    detail::check(rackweave_rack_relax(get(), idle_rounds));
  }

 private:
  explicit rack(rackweave_rack* made) noexcept : owner(made) {}
  static rackweave_rack* make(const char* toml) {
    rackweave_rack* made = nullptr;
    detail::check(rackweave_rack_create(toml, &made));
    return made;
  }
};

class region : public detail::owner<rackweave_region, rackweave_region_destroy> {
 public:
  region(const rack& rack, std::uint16_t node, std::uint64_t length, std::uint32_t access = 0)
      : owner([&] {
          rackweave_region* made = nullptr;
          detail::check(rackweave_region_create(rack.get(), node, length, access, &made));
          return made;
        }()) {}
  rackweave_region_info info() const {
    rackweave_region_info info{};
    detail::check(rackweave_region_get_info(get(), &info));
    return info;
  }
  // Its bytes, which peers may be changing.
  std::span<std::uint8_t> data() const {
    const auto info = this->info();
    return {info.data, static_cast<std::size_t>(info.length)};
  }
  void write(std::uint64_t offset, bytes from) const {
    detail::check(rackweave_region_write(get(), offset, from.data(), from.size()));
  }
  void read(std::uint64_t offset, std::span<std::uint8_t> to) const {
    detail::check(rackweave_region_read(get(), offset, to.data(), to.size()));
  }
};

class flow_producer
    : public detail::owner<rackweave_flow_producer, rackweave_flow_producer_destroy> {
 public:
  using owner::owner;
  // False: the ring is full.
  bool try_push(bytes item) {
    return detail::done(rackweave_flow_producer_try_push(get(), item.data(), item.size()),
                        RACKWEAVE_STATUS_PENDING);
  }
  // False: there was no space in time.
  bool push(bytes item, nanoseconds time = forever) {
    return detail::done(
        rackweave_flow_producer_push(get(), item.data(), item.size(), detail::limit(time)),
        RACKWEAVE_STATUS_TIMED_OUT);
  }
  // Free slots and their number; none: the ring is full.
  std::pair<std::uint8_t*, std::uint32_t> try_reserve(std::uint32_t items_max) {
    std::uint8_t* slots = nullptr;
    std::uint32_t items = 0;
    detail::done(rackweave_flow_producer_try_reserve(get(), items_max, &slots, &items),
                 RACKWEAVE_STATUS_PENDING);
    return {slots, items};
  }
  void commit(std::uint32_t items) {
    detail::check(rackweave_flow_producer_commit(get(), items));
  }
  void finish() { detail::check(rackweave_flow_producer_finish(get())); }
  bool is_delivered() {
    return detail::done(rackweave_flow_producer_delivered(get()), RACKWEAVE_STATUS_PENDING);
  }
};

// What came of looking for something: it is there, not yet, or never more.
enum class arrival { here, pending, end };

namespace detail {
inline arrival arrived(rackweave_status status) {
  if (status == RACKWEAVE_STATUS_OK) return arrival::here;
  if (status == RACKWEAVE_STATUS_END) return arrival::end;
  if (status == RACKWEAVE_STATUS_PENDING || status == RACKWEAVE_STATUS_TIMED_OUT)
    return arrival::pending;
  fail(status);
}
}  // namespace detail

class flow_consumer
    : public detail::owner<rackweave_flow_consumer, rackweave_flow_consumer_destroy> {
 public:
  using owner::owner;
  arrival try_pop(std::span<std::uint8_t> item) {
    return detail::arrived(rackweave_flow_consumer_try_pop(get(), item.data(), item.size()));
  }
  arrival pop(std::span<std::uint8_t> item, nanoseconds time = forever) {
    return detail::arrived(
        rackweave_flow_consumer_pop(get(), item.data(), item.size(), detail::limit(time)));
  }
  // The next items in place, and how many.
  arrival try_peek(std::uint32_t items_max, const std::uint8_t*& items, std::uint32_t& count) {
    return detail::arrived(
        rackweave_flow_consumer_try_peek(get(), items_max, &items, &count));
  }
  void release(std::uint32_t items) {
    detail::check(rackweave_flow_consumer_release(get(), items));
  }
};

struct flow_options {
  rackweave_flow_shape shape = RACKWEAVE_FLOW_SHAPE_SHUFFLE;
  std::uint32_t item_bytes = 0;
  std::uint32_t ring_bytes = 0;
  std::uint32_t weight = 0;
  std::vector<std::uint16_t> producers;
  std::vector<std::uint16_t> consumers;
};

class flow : public detail::owner<rackweave_flow, rackweave_flow_destroy> {
 public:
  flow(const rack& rack, const flow_options& options)
      : owner([&] {
          rackweave_flow_options given{};
          given.shape = static_cast<std::uint32_t>(options.shape);
          given.item_bytes = options.item_bytes;
          given.ring_bytes = options.ring_bytes;
          given.weight = options.weight;
          given.producers = options.producers.data();
          given.producer_count = options.producers.size();
          given.consumers = options.consumers.data();
          given.consumer_count = options.consumers.size();
          rackweave_flow* made = nullptr;
          detail::check(rackweave_flow_create(rack.get(), &given, &made));
          return made;
        }()) {}
  flow_producer producer(std::uint32_t number, std::uint32_t consumer = 0) const {
    rackweave_flow_producer* made = nullptr;
    detail::check(rackweave_flow_producer_create(get(), number, consumer, &made));
    return flow_producer(made);
  }
  flow_consumer consumer(std::uint32_t number) const {
    rackweave_flow_consumer* made = nullptr;
    detail::check(rackweave_flow_consumer_create(get(), number, &made));
    return flow_consumer(made);
  }
  void close() const { detail::check(rackweave_flow_close(get())); }
  // True while it runs, false when all was delivered.
  bool is_running() const {
    return detail::done(rackweave_flow_state(get()), RACKWEAVE_STATUS_END);
  }
};

class page_guard : public detail::owner<rackweave_page_guard, rackweave_page_guard_destroy> {
 public:
  using owner::owner;
  std::uint64_t page() const {
    std::uint64_t page = 0;
    detail::check(rackweave_page_guard_page(get(), &page, nullptr));
    return page;
  }
  std::uint64_t version() const {
    std::uint64_t version = 0;
    detail::check(rackweave_page_guard_page(get(), nullptr, &version));
    return version;
  }
  bytes data() const {
    const std::uint8_t* data = nullptr;
    std::size_t length = 0;
    detail::check(rackweave_page_guard_data(get(), &data, &length));
    return {data, length};
  }
  // Its bytes, to be changed: of a page that is fixed exclusively.
  std::span<std::uint8_t> data_mut() {
    std::uint8_t* data = nullptr;
    std::size_t length = 0;
    detail::check(rackweave_page_guard_data_mut(get(), &data, &length));
    return {data, length};
  }
  // Ends the guard and publishes its change. Throws if that was not taken, or is not known in time.
  void commit(nanoseconds time = std::chrono::seconds(10)) {
    const rackweave_status status = rackweave_page_guard_commit(get(), detail::limit(time));
    // The guard has ended, unless there was none.
    release();
    detail::check(status);
  }
  // Whether its version is still the newest.
  bool is_newest() const {
    bool newest = false;
    detail::check(rackweave_page_guard_is_newest(get(), &newest));
    return newest;
  }
};

struct pages_options {
  std::optional<std::string> path;
  std::uint64_t pages = 0;
  std::optional<std::string> storage;
  std::optional<std::string> fallback;
  std::uint32_t frames = 0;
  std::uint16_t workers = 0;
  std::uint16_t requests = 0;
};

class pages : public detail::owner<rackweave_pages, rackweave_pages_destroy> {
 public:
  explicit pages(const rack& rack, const pages_options& options = {})
      : owner([&] {
          rackweave_pages_options given{};
          given.path = detail::text(options.path);
          given.pages = options.pages;
          given.storage = detail::text(options.storage);
          given.fallback = detail::text(options.fallback);
          given.frames = options.frames;
          given.workers = options.workers;
          given.requests = options.requests;
          rackweave_pages* made = nullptr;
          detail::check(rackweave_pages_create(rack.get(), &given, &made));
          return made;
        }()) {}
  std::uint64_t count() const {
    std::uint64_t count = 0;
    detail::check(rackweave_pages_size(get(), &count, nullptr));
    return count;
  }
  std::uint32_t page_bytes() const {
    std::uint32_t size = 0;
    detail::check(rackweave_pages_size(get(), nullptr, &size));
    return size;
  }
};

class page_store : public detail::owner<rackweave_page_store, rackweave_page_store_destroy> {
 public:
  page_store(const pages& pages, std::uint16_t node)
      : owner([&] {
          rackweave_page_store* made = nullptr;
          detail::check(rackweave_page_store_create(pages.get(), node, &made));
          return made;
        }()) {}
  void format(std::uint64_t identity) {
    detail::check(rackweave_page_store_format(get(), identity));
  }
  void open() { detail::check(rackweave_page_store_open(get())); }
  void close() { detail::check(rackweave_page_store_close(get())); }
  std::uint64_t allocate() {
    std::uint64_t page = 0;
    detail::check(rackweave_page_store_allocate(get(), &page));
    return page;
  }
  void free(std::uint64_t page) { detail::check(rackweave_page_store_free(get(), page)); }
  // Throws also when the time is over.
  page_guard fix(std::uint64_t page, rackweave_page_mode mode, nanoseconds time = forever) {
    rackweave_page_guard* made = nullptr;
    detail::check(rackweave_page_store_fix(get(), page, static_cast<std::uint32_t>(mode),
                                           detail::limit(time), &made));
    return page_guard(made);
  }
  std::uint64_t submit_fix(std::uint64_t page, rackweave_page_mode mode) {
    std::uint64_t ticket = 0;
    detail::check(rackweave_page_store_submit_fix(get(), page,
                                                  static_cast<std::uint32_t>(mode), &ticket));
    return ticket;
  }
  // Nothing: it is under way.
  std::optional<page_guard> take_fix(std::uint64_t ticket) {
    rackweave_page_guard* made = nullptr;
    if (!detail::done(rackweave_page_store_take_fix(get(), ticket, &made),
                      RACKWEAVE_STATUS_PENDING))
      return std::nullopt;
    return page_guard(made);
  }
  void abandon_fix(std::uint64_t ticket) {
    detail::check(rackweave_page_store_abandon_fix(get(), ticket));
  }
  void prefetch(std::uint64_t page) {
    detail::check(rackweave_page_store_prefetch(get(), page));
  }
  bool poll() {
    return detail::done(rackweave_page_store_poll(get()), RACKWEAVE_STATUS_PENDING);
  }
  void settle() { detail::check(rackweave_page_store_settle(get())); }
  std::uint64_t flush() {
    std::uint64_t written = 0;
    detail::check(rackweave_page_store_flush(get(), &written));
    return written;
  }
  std::uint64_t submit_flush() {
    std::uint64_t ticket = 0;
    detail::check(rackweave_page_store_submit_flush(get(), &ticket));
    return ticket;
  }
  std::optional<std::uint64_t> take_flush(std::uint64_t ticket) {
    std::uint64_t written = 0;
    if (!detail::done(rackweave_page_store_take_flush(get(), ticket, &written),
                      RACKWEAVE_STATUS_PENDING))
      return std::nullopt;
    return written;
  }
};

struct index_options {
  std::optional<std::string> node;
  std::uint64_t keys = 0;
  std::uint32_t value_max = 0;
  std::uint32_t node_bytes = 0;
  std::uint16_t clients = 0;
  std::uint16_t copies = 0;
};

class index : public detail::owner<rackweave_index, rackweave_index_destroy> {
 public:
  explicit index(const rack& rack, const index_options& options = {})
      : owner([&] {
          rackweave_index_options given{};
          given.node = detail::text(options.node);
          given.keys = options.keys;
          given.value_max = options.value_max;
          given.node_bytes = options.node_bytes;
          given.clients = options.clients;
          given.copies = options.copies;
          rackweave_index* made = nullptr;
          detail::check(rackweave_index_create(rack.get(), &given, &made));
          return made;
        }()) {}
  bool serve() const {
    return detail::done(rackweave_index_serve(get()), RACKWEAVE_STATUS_PENDING);
  }
};

class index_client
    : public detail::owner<rackweave_index_client, rackweave_index_client_destroy> {
 public:
  index_client(const index& index, std::uint16_t node,
               rackweave_index_access access = RACKWEAVE_INDEX_ACCESS_RPC)
      : owner([&] {
          rackweave_index_client* made = nullptr;
          detail::check(rackweave_index_client_create(
              index.get(), node, static_cast<std::uint32_t>(access), &made));
          return made;
        }()) {}
  // Nothing: the key has no value.
  std::optional<std::vector<std::uint8_t>> lookup(std::uint64_t key,
                                                  nanoseconds time = forever) {
    std::vector<std::uint8_t> value(64);
    for (;;) {
      std::size_t length = 0;
      const auto status = rackweave_index_client_lookup(get(), key, detail::limit(time),
                                                        value.data(), value.size(), &length);
      if (status != RACKWEAVE_STATUS_TOO_LONG) {
        if (!detail::done(status, RACKWEAVE_STATUS_NOT_FOUND)) return std::nullopt;
        value.resize(length);
        return value;
      }
      value.resize(length);
    }
  }
  // False: the key has a value already.
  bool insert(std::uint64_t key, bytes value, nanoseconds time = forever) {
    return detail::done(rackweave_index_client_insert(get(), key, value.data(), value.size(),
                                                      detail::limit(time)),
                        RACKWEAVE_STATUS_EXISTS);
  }
  // False: the key has no value.
  bool update(std::uint64_t key, bytes value, nanoseconds time = forever) {
    return detail::done(rackweave_index_client_update(get(), key, value.data(), value.size(),
                                                      detail::limit(time)),
                        RACKWEAVE_STATUS_NOT_FOUND);
  }
  void put(std::uint64_t key, bytes value, nanoseconds time = forever) {
    detail::check(rackweave_index_client_put(get(), key, value.data(), value.size(),
                                             detail::limit(time)));
  }
  // False: the key has no value.
  bool remove(std::uint64_t key, nanoseconds time = forever) {
    return detail::done(rackweave_index_client_delete(get(), key, detail::limit(time)),
                        RACKWEAVE_STATUS_NOT_FOUND);
  }
  // Entries from `low` to `last`, which are good until the next call.
  std::span<const rackweave_index_entry> scan(std::uint64_t low, std::uint64_t last,
                                              std::uint32_t limit, bool backward = false,
                                              nanoseconds time = forever) {
    rackweave_index_operation operation{};
    operation.kind = backward ? RACKWEAVE_INDEX_OPERATION_KIND_SCAN_BACKWARD
                              : RACKWEAVE_INDEX_OPERATION_KIND_SCAN;
    operation.limit = limit;
    operation.key = low;
    operation.last = last;
    rackweave_index_reply reply{};
    detail::check(
        rackweave_index_client_execute(get(), &operation, detail::limit(time), &reply));
    return {reply.entries, reply.entry_count};
  }
  std::uint64_t submit(const rackweave_index_operation& operation) {
    std::uint64_t ticket = 0;
    detail::check(rackweave_index_client_submit(get(), &operation, &ticket));
    return ticket;
  }
  // Nothing: no operation has ended.
  std::optional<rackweave_index_reply> poll() {
    rackweave_index_reply reply{};
    if (!detail::done(rackweave_index_client_poll(get(), &reply), RACKWEAVE_STATUS_PENDING))
      return std::nullopt;
    return reply;
  }
};

class sequencer : public detail::owner<rackweave_sequencer, rackweave_sequencer_destroy> {
 public:
  explicit sequencer(const rack& rack, std::uint64_t first = 0)
      : owner([&] {
          rackweave_sequencer* made = nullptr;
          detail::check(rackweave_sequencer_create(rack.get(), first, &made));
          return made;
        }()) {}
  std::uint64_t reserved() const {
    std::uint64_t reserved = 0;
    detail::check(rackweave_sequencer_reserved(get(), &reserved));
    return reserved;
  }
};

class sequencer_client
    : public detail::owner<rackweave_sequencer_client, rackweave_sequencer_client_destroy> {
 public:
  sequencer_client(const sequencer& sequencer, std::uint16_t node)
      : owner([&] {
          rackweave_sequencer_client* made = nullptr;
          detail::check(rackweave_sequencer_client_create(sequencer.get(), node, &made));
          return made;
        }()) {}
  // The first of `count` numbers.
  std::uint64_t next(std::uint64_t count = 1, nanoseconds time = forever) {
    std::uint64_t first = 0;
    detail::check(rackweave_sequencer_client_next(get(), count, detail::limit(time), &first));
    return first;
  }
  std::uint64_t submit(std::uint64_t count) {
    std::uint64_t ticket = 0;
    detail::check(rackweave_sequencer_client_submit(get(), count, &ticket));
    return ticket;
  }
  struct range {
    std::uint64_t ticket = 0;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  // Nothing: no call has ended.
  std::optional<range> poll() {
    range range;
    if (!detail::done(
            rackweave_sequencer_client_poll(get(), &range.ticket, &range.first, &range.count),
            RACKWEAVE_STATUS_PENDING))
      return std::nullopt;
    return range;
  }
  void reconnect() { detail::check(rackweave_sequencer_client_reconnect(get())); }
};

// Who closed a connection, and why.
struct closed {
  rackweave_closed_by by;
  rackweave_close_reason reason;
};

namespace detail {
template <typename Handle>
std::optional<closed> why(rackweave_status (*ask)(const Handle*, std::uint32_t*, std::uint32_t*),
                          const Handle* handle) {
  std::uint32_t by = 0;
  std::uint32_t reason = 0;
  if (!done(ask(handle, &by, &reason), RACKWEAVE_STATUS_PENDING)) return std::nullopt;
  return closed{static_cast<rackweave_closed_by>(by),
                static_cast<rackweave_close_reason>(reason)};
}
}  // namespace detail

class sender : public detail::owner<rackweave_sender, rackweave_sender_destroy> {
 public:
  using owner::owner;
  std::uint64_t message_max() const {
    std::uint64_t most = 0;
    detail::check(rackweave_sender_limits(get(), &most, nullptr));
    return most;
  }
  std::size_t piece_max() const {
    std::size_t most = 0;
    detail::check(rackweave_sender_limits(get(), nullptr, &most));
    return most;
  }
  // False: there is no space now.
  bool try_send(std::uint32_t opcode, bytes message) {
    return detail::done(
        rackweave_sender_try_send(get(), opcode, message.data(), message.size()),
        RACKWEAVE_STATUS_PENDING);
  }
  // Throws also when the time is over.
  void send(std::uint32_t opcode, bytes message, nanoseconds time = forever) {
    detail::check(rackweave_sender_send(get(), opcode, message.data(), message.size(),
                                        detail::limit(time)));
  }
  void send(std::uint32_t opcode, const region& region, std::uint64_t offset,
            std::uint64_t length, nanoseconds time = forever) {
    detail::check(rackweave_sender_send_region(get(), opcode, region.get(), offset, length,
                                               detail::limit(time)));
  }
  void begin(std::uint32_t opcode, std::uint64_t total) {
    detail::check(rackweave_sender_begin(get(), opcode, total));
  }
  std::size_t write(bytes part) {
    std::size_t written = 0;
    detail::done(rackweave_sender_write(get(), part.data(), part.size(), &written),
                 RACKWEAVE_STATUS_PENDING);
    return written;
  }
  std::uint64_t remaining() const {
    std::uint64_t remaining = 0;
    detail::check(rackweave_sender_remaining(get(), &remaining));
    return remaining;
  }
  bool poll() { return detail::done(rackweave_sender_poll(get()), RACKWEAVE_STATUS_PENDING); }
  // Whether all is in the peer's memory, in time.
  bool delivered(nanoseconds time = forever) {
    return detail::done(rackweave_sender_delivered(get(), detail::limit(time)),
                        RACKWEAVE_STATUS_TIMED_OUT);
  }
  // Whether the receiver has released everything, in time.
  bool consumed(nanoseconds time = forever) {
    return detail::done(rackweave_sender_consumed(get(), detail::limit(time)),
                        RACKWEAVE_STATUS_TIMED_OUT);
  }
  void finish() { detail::check(rackweave_sender_finish(get())); }
  void close(rackweave_close_reason reason = RACKWEAVE_CLOSE_REASON_NORMAL) {
    detail::check(rackweave_sender_close(get(), static_cast<std::uint32_t>(reason)));
  }
  std::optional<closed> why_closed() const {
    return detail::why<rackweave_sender>(rackweave_sender_closed, get());
  }
  rackweave_channel_counters counters() const {
    rackweave_channel_counters counters{};
    detail::check(rackweave_sender_get_counters(get(), &counters));
    return counters;
  }
};

class receiver : public detail::owner<rackweave_receiver, rackweave_receiver_destroy> {
 public:
  using owner::owner;
  arrival try_peek(rackweave_piece& piece) {
    return detail::arrived(rackweave_receiver_try_peek(get(), &piece));
  }
  arrival peek(rackweave_piece& piece, nanoseconds time = forever) {
    return detail::arrived(rackweave_receiver_peek(get(), detail::limit(time), &piece));
  }
  void release() { detail::check(rackweave_receiver_release(get())); }
  // A message whole, in a buffer that grows as needed.
  arrival receive(std::vector<std::uint8_t>& message, rackweave_message_info& info,
                  nanoseconds time = forever) {
    for (;;) {
      const auto status = rackweave_receiver_receive(get(), detail::limit(time),
                                                     message.data(), message.size(), &info);
      if (status != RACKWEAVE_STATUS_TOO_LONG) {
        const auto came = detail::arrived(status);
        if (came == arrival::here) message.resize(static_cast<std::size_t>(info.length));
        return came;
      }
      message.resize(static_cast<std::size_t>(info.length));
    }
  }
  void close(rackweave_close_reason reason = RACKWEAVE_CLOSE_REASON_NORMAL) {
    detail::check(rackweave_receiver_close(get(), static_cast<std::uint32_t>(reason)));
  }
  std::optional<closed> why_closed() const {
    return detail::why<rackweave_receiver>(rackweave_receiver_closed, get());
  }
  rackweave_channel_counters counters() const {
    rackweave_channel_counters counters{};
    detail::check(rackweave_receiver_get_counters(get(), &counters));
    return counters;
  }
};

class connection : public detail::owner<rackweave_connection, rackweave_connection_destroy> {
 public:
  using owner::owner;
  // Connects and waits for that, at most so long.
  static connection dial(const rack& rack, std::uint16_t node, const std::string& address,
                         nanoseconds time, const rackweave_messaging_options& options = {}) {
    rackweave_connection* made = nullptr;
    detail::check(rackweave_connection_dial(rack.get(), node, address.c_str(), &options,
                                            detail::limit(time), &made));
    return connection(made);
  }
  // Begins to connect; poll() gets on with it.
  static connection submit_dial(const rack& rack, std::uint16_t node,
                                const std::string& address, nanoseconds time,
                                const rackweave_messaging_options& options = {}) {
    rackweave_connection* made = nullptr;
    detail::check(rackweave_connection_submit_dial(rack.get(), node, address.c_str(), &options,
                                                   detail::limit(time), &made));
    return connection(made);
  }
  // Whether it is connected.
  bool poll() {
    return detail::done(rackweave_connection_poll(get()), RACKWEAVE_STATUS_PENDING);
  }
  std::pair<std::uint32_t, std::uint32_t> channels() const {
    std::uint32_t senders = 0;
    std::uint32_t receivers = 0;
    detail::check(rackweave_connection_channels(get(), &senders, &receivers));
    return {senders, receivers};
  }
  rackweave::sender sender(std::uint32_t channel = 0) {
    rackweave_sender* made = nullptr;
    detail::check(rackweave_sender_create(get(), channel, &made));
    return rackweave::sender(made);
  }
  rackweave::receiver receiver(std::uint32_t channel = 0) {
    rackweave_receiver* made = nullptr;
    detail::check(rackweave_receiver_create(get(), channel, &made));
    return rackweave::receiver(made);
  }
};

class listener : public detail::owner<rackweave_listener, rackweave_listener_destroy> {
 public:
  listener(const rack& rack, std::uint16_t node, const std::string& address = "127.0.0.1:0",
           const rackweave_messaging_options& options = {})
      : owner([&] {
          rackweave_listener* made = nullptr;
          detail::check(rackweave_listener_create(rack.get(), node, address.c_str(), &options,
                                                  &made));
          return made;
        }()) {}
  std::string address() const {
    return detail::copied(
        [this](auto... to) { return rackweave_listener_address(get(), to...); });
  }
  // Nothing: none has come yet.
  std::optional<connection> try_accept() {
    rackweave_connection* made = nullptr;
    if (!detail::done(rackweave_listener_try_accept(get(), &made), RACKWEAVE_STATUS_PENDING))
      return std::nullopt;
    return connection(made);
  }
  // Nothing: none has come in time.
  std::optional<connection> accept(nanoseconds time = forever) {
    rackweave_connection* made = nullptr;
    if (!detail::done(rackweave_listener_accept(get(), detail::limit(time), &made),
                      RACKWEAVE_STATUS_TIMED_OUT))
      return std::nullopt;
    return connection(made);
  }
};

// A column that has arrived.
class column : public detail::owner<rackweave_column, rackweave_column_destroy> {
 public:
  using owner::owner;
  rackweave_column_data data() const {
    rackweave_column_data data{};
    detail::check(rackweave_column_get_data(get(), &data));
    return data;
  }
};

class catalogue : public detail::owner<rackweave_catalogue, rackweave_catalogue_destroy> {
 public:
  explicit catalogue(const rack& rack, std::size_t columns_max = 1024)
      : owner([&] {
          rackweave_catalogue* made = nullptr;
          detail::check(rackweave_catalogue_create(rack.get(), columns_max, &made));
          return made;
        }()) {}
  // Copies the buffers.
  void add(const std::string& name, const rackweave_column_data& column) const {
    detail::check(rackweave_catalogue_add(get(), name.c_str(), &column));
  }
  // False: there is none of this name.
  bool remove(const std::string& name) const {
    return detail::done(rackweave_catalogue_remove(get(), name.c_str()),
                        RACKWEAVE_STATUS_NOT_FOUND);
  }
};

class column_server
    : public detail::owner<rackweave_column_server, rackweave_column_server_destroy> {
 public:
  // Takes all ends of the connection.
  column_server(const connection& connection, const catalogue& catalogue)
      : owner([&] {
          rackweave_column_server* made = nullptr;
          detail::check(
              rackweave_column_server_create(connection.get(), catalogue.get(), &made));
          return made;
        }()) {}
  // Here: something was done. Pending: nothing was to do. End: the reader has finished.
  arrival poll() { return detail::arrived(rackweave_column_server_poll(get())); }
  // Whether the reader has finished in time.
  bool serve(nanoseconds time = forever) {
    return detail::done(rackweave_column_server_serve(get(), detail::limit(time)),
                        RACKWEAVE_STATUS_TIMED_OUT);
  }
};

class column_reader
    : public detail::owner<rackweave_column_reader, rackweave_column_reader_destroy> {
 public:
  // Takes all ends of the connection.
  explicit column_reader(const connection& connection)
      : owner([&] {
          rackweave_column_reader* made = nullptr;
          detail::check(rackweave_column_reader_create(connection.get(), &made));
          return made;
        }()) {}
  // Throws also when there is none of this name, and when the time is over.
  column fetch(const std::string& name, nanoseconds time = forever) {
    rackweave_column* made = nullptr;
    detail::check(
        rackweave_column_reader_fetch(get(), name.c_str(), detail::limit(time), &made));
    return column(made);
  }
  std::uint64_t submit(const std::string& name) {
    std::uint64_t ticket = 0;
    detail::check(rackweave_column_reader_submit(get(), name.c_str(), &ticket));
    return ticket;
  }
  // A column and its ticket. Nothing: none has arrived.
  std::optional<std::pair<std::uint64_t, column>> poll() {
    std::uint64_t ticket = 0;
    rackweave_column* made = nullptr;
    if (!detail::done(rackweave_column_reader_poll(get(), &ticket, &made),
                      RACKWEAVE_STATUS_PENDING))
      return std::nullopt;
    return std::pair(ticket, column(made));
  }
  // Whether the server has heard in time that no more requests follow.
  bool finish(nanoseconds time = forever) {
    return detail::done(rackweave_column_reader_finish(get(), detail::limit(time)),
                        RACKWEAVE_STATUS_TIMED_OUT);
  }
};

}  // namespace rackweave

#endif  // RACKWEAVE_HPP
