// Messages in C++: a storage node answers with columns of numbers, a compute node asks for them and
// sums them up where they arrive. Each node is a thread here; they speak by messages over one-sided WRITEs.
// Exits with 1 if a sum is not as it should be.

#include <rackweave.hpp>

#include <iostream>
#include <thread>

namespace {

enum opcode : std::uint32_t { ask = 1, column = 2 };
constexpr std::uint64_t rows = 100'000;
using namespace std::chrono_literals;

// Row `row` of column `name`: so both know what the sum has to be.
std::int64_t value(std::uint64_t name, std::uint64_t row) {
  return static_cast<std::int64_t>((row * 7 + name) % 1000);
}

// The storage node: answers each question, the number of a column, with its values.
void serve(rackweave::listener listener) {
  auto connection = listener.accept(10s);
  if (!connection) return;
  auto sender = connection->sender();
  auto receiver = connection->receiver();
  std::vector<std::uint8_t> question;
  rackweave_message_info info{};
  while (receiver.receive(question, info) == rackweave::arrival::here) {
    std::vector<std::int64_t> values(rows);
    for (std::uint64_t row = 0; row < rows; ++row) values[row] = value(question.at(0), row);
    // Longer than a receive buffer: it goes in pieces, as the receiver frees space.
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
    sender.send(column, {bytes, values.size() * sizeof(std::int64_t)});
  }
  sender.finish();
  sender.consumed();
}

// The compute node: asks for a column and sums it up, piece by piece, without copying it.
std::int64_t sum_of(std::uint8_t name, rackweave::sender& sender,
                    rackweave::receiver& receiver) {
  const std::uint8_t question[] = {name};
  sender.send(ask, question);
  std::int64_t sum = 0;
  rackweave_piece piece{};
  while (receiver.peek(piece) == rackweave::arrival::here) {
    // Pieces begin at multiples of 32 bytes, and the sender writes whole values of 8 bytes.
    const auto* values = reinterpret_cast<const std::int64_t*>(piece.bytes);
    for (std::size_t at = 0; at < piece.length / sizeof *values; ++at) sum += values[at];
    const bool last = piece.last;
    receiver.release();
    if (last) break;
  }
  return sum;
}

int run(const char* config) {
  // A rack in this process, or the running rack of a configuration.
  const auto rack =
      config != nullptr ? rackweave::rack::join(config, "storage0,compute0") : rackweave::rack();
  rackweave::listener listener(rack, rack.node("storage0"));
  const auto address = listener.address();
  std::jthread storage([listener = std::move(listener)]() mutable {
    try {
      serve(std::move(listener));
    } catch (const rackweave::error& error) {
      std::cerr << "storage node: " << error.what() << '\n';
    }
  });
  auto connection =
      rackweave::connection::dial(rack, rack.node("compute0"), address, 10s);
  auto sender = connection.sender();
  auto receiver = connection.receiver();
  bool is_right = true;
  for (std::uint8_t name = 0; name < 4; ++name) {
    std::int64_t expected = 0;
    for (std::uint64_t row = 0; row < rows; ++row) expected += value(name, row);
    const auto sum = sum_of(name, sender, receiver);
    std::cout << "column " << int{name} << ": sum " << sum << '\n';
    is_right = is_right && sum == expected;
  }
  // The storage node sees the end, and says so in turn.
  sender.finish();
  rackweave_piece piece{};
  is_right = is_right && receiver.peek(piece) == rackweave::arrival::end;
  sender.consumed();
  return is_right ? 0 : 1;
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
