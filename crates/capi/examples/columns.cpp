// Columns in C++: a storage node, a thread here, serves a column of texts, of which one is null; a
// compute node fetches it. Exits with 1 if something else arrives.

#include <rackweave.hpp>

#include <cstring>
#include <iostream>
#include <thread>

namespace {

using namespace std::chrono_literals;

void serve(rackweave::listener listener, rackweave::catalogue catalogue) {
  const auto connection = listener.accept(10s);
  if (connection) rackweave::column_server(*connection, catalogue).serve(10s);
}

int run(const char* config) {
  // A rack in this process, or the running rack of a configuration.
  const auto rack =
      config != nullptr ? rackweave::rack::join(config, "storage0,compute0") : rackweave::rack();
  // "a", null, "c": where each text begins, and which rows are not null.
  const std::array<std::int32_t, 4> offsets{0, 1, 1, 2};
  const std::uint8_t validity = 0b101;
  const std::string_view texts = "ac";
  rackweave_column_data letters{};
  letters.data_type = RACKWEAVE_COLUMN_TYPE_UTF8;
  letters.rows = 3;
  letters.nulls = 1;
  letters.validity = &validity;
  letters.offsets = reinterpret_cast<const std::uint8_t*>(offsets.data());
  letters.values = reinterpret_cast<const std::uint8_t*>(texts.data());
  letters.values_length = texts.size();
  rackweave::catalogue catalogue(rack);
  catalogue.add("letters", letters);

  rackweave::listener listener(rack, rack.node("storage0"));
  const auto address = listener.address();
  std::jthread storage(
      [listener = std::move(listener), catalogue = std::move(catalogue)]() mutable {
        try {
          serve(std::move(listener), std::move(catalogue));
        } catch (const rackweave::error& error) {
          std::cerr << "storage node: " << error.what() << '\n';
        }
      });
  const auto connection =
      rackweave::connection::dial(rack, rack.node("compute0"), address, 10s);
  rackweave::column_reader reader(connection);
  const auto column = reader.fetch("letters", 10s);
  const auto data = column.data();
  std::array<std::int32_t, 4> ends{};
  std::memcpy(ends.data(), data.offsets, sizeof ends);
  const auto* values = reinterpret_cast<const char*>(data.values);
  std::cout << data.rows << " texts, the second is null: "
            << std::string_view(values, static_cast<std::size_t>(ends[1])) << ", "
            << std::string_view(values + ends[2], static_cast<std::size_t>(ends[3] - ends[2]))
            << '\n';
  const bool is_right = data.rows == 3 && data.nulls == 1 && *data.validity == validity &&
                        std::string_view(values, data.values_length) == texts;
  return is_right && reader.finish(10s) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : nullptr);
  } catch (const rackweave::error& error) {
    std::cerr << rackweave_status_text(error.status()) << ": " << error.what() << '\n';
    return 1;
  }
}
