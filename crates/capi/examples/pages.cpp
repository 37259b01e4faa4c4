// Pages, an index and a sequencer in C++: accounts in pages, found by an index. Handles end with
// their scope, and what fails throws. Exits with 1 if anything is not as it should be.

#include <rackweave.hpp>

#include <cstring>
#include <iostream>

namespace {

std::uint64_t word(rackweave::bytes bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

rackweave::bytes bytes_of(const std::uint64_t& word) {
  return {reinterpret_cast<const std::uint8_t*>(&word), sizeof word};
}

int run(const char* config) {
  // A rack in this process, or the running rack of a configuration.
  const auto rack =
      config != nullptr ? rackweave::rack::join(config, "compute0,compute1") : rackweave::rack();
  const auto node = rack.node("compute0");

  rackweave::pages_options options;
  options.pages = 64;
  const rackweave::pages pages(rack, options);
  rackweave::page_store store(pages, node);
  store.format(7);

  // Accounts have numbers from a sequencer in the switch, and an index knows their pages.
  const rackweave::sequencer sequencer(rack, 1000);
  rackweave::sequencer_client numbers(sequencer, node);
  const rackweave::index index(rack);
  rackweave::index_client directory(index, node);
  for (std::uint64_t balance = 100; balance <= 500; balance += 100) {
    const auto account = numbers.next();
    const auto page = store.allocate();
    auto guard = store.fix(page, RACKWEAVE_PAGE_MODE_EXCLUSIVE);
    std::memcpy(guard.data_mut().data(), &balance, sizeof balance);
    guard.commit();
    if (!directory.insert(account, bytes_of(page))) return 1;
  }

  // Another node adds them up: in the order of their numbers, each page from where it is now.
  const auto reader_node = rack.node("compute1");
  rackweave::page_store reader(pages, reader_node);
  rackweave::index_client accounts(index, reader_node, RACKWEAVE_INDEX_ACCESS_ONE_SIDED);
  reader.open();
  std::uint64_t sum = 0;
  for (const auto& entry : accounts.scan(1000, 1004, 10)) {
    const auto page = word({entry.value, entry.value_length});
    const auto guard = reader.fix(page, RACKWEAVE_PAGE_MODE_SHARED);
    std::cout << "account " << entry.key << ": " << word(guard.data()) << '\n';
    sum += word(guard.data());
  }
  std::cout << "sum " << sum << '\n';
  store.close();
  return sum == 1500 ? 0 : 1;
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
