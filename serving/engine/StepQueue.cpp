#include "serving/engine/StepQueue.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

namespace knapper::serving {

/// Best token, its log-probability, the token again for the next step, another
/// one that was drawn.
static constexpr size_t kFetchedBytes = sizeof(int64_t) + sizeof(float),
                        kRowBytes = kFetchedBytes + 2 * sizeof(int64_t);

Expected<std::unique_ptr<StepQueue>>
StepQueue::create(std::shared_ptr<Device> device) {
  if (!isFor(*device))
    return userError(
        device->isAsynchronous() ? "has no streams to keep steps in order"
                                 : "computes on the thread that submits",
        cat("the device '", device->kind(), "'"), "run its steps one by one");
  std::unique_ptr<StepQueue> made(new StepQueue);
  made->device = std::move(device);
  ASSIGN_OR_RETURN(made->queue, made->device->createQueue({}));
  TRY(made->queue->begin());
  constexpr size_t bytes = 1 << 16;
  constexpr int64_t count = 256;
  TRY(made->reserveNumbers(bytes));
  TRY(made->reserveRows(count));
  return made;
}

StepQueue::~StepQueue() {
  if (queue)
    (void)queue->finish();
}

std::array<std::span<const std::byte>, 2> StepQueue::memory() const {
  auto bytes = [](const DeviceBuffer &buffer) {
    return std::span(static_cast<const std::byte *>(buffer.address()),
                     buffer.bytes());
  };
  return {bytes(*numbers), bytes(*results)};
}

Status StepQueue::finish() {
  // Memory that the device still uses may go when this is left: not before.
  while (true)
    try {
      TRY(queue->finish());
      return queue->begin();
    } catch (const std::bad_alloc &) { // others give some memory back
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

Status StepQueue::reserveNumbers(size_t bytes) {
  if (numbers && numbers->bytes() >= bytes)
    return success();
  TRY(finish()); // the device may read the old ones
  bytes = std::bit_ceil(bytes);
  // All of them or none: the size of one stands for the others.
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> made,
                   device->allocate(bytes, MemoryKind::device));
  std::array<std::unique_ptr<DeviceBuffer>, kMostSteps> lists;
  for (auto &list : lists) {
    ASSIGN_OR_RETURN(list, device->allocate(bytes, MemoryKind::host));
  }
  numbers = std::move(made);
  for (size_t i = 0; i < kMostSteps; ++i)
    slots[i].numbers = std::move(lists[i]);
  return success();
}

Status StepQueue::reserveRows(int64_t count) {
  if (count <= rows)
    return success();
  auto more = static_cast<int64_t>(std::bit_ceil(static_cast<size_t>(count)));
  auto bytes = static_cast<size_t>(more) * kRowBytes;
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> made,
                   device->allocate(bytes, MemoryKind::device));
  std::array<std::unique_ptr<DeviceBuffer>, kMostSteps> fetching;
  for (auto &buffer : fetching) {
    ASSIGN_OR_RETURN(buffer, device->allocate(bytes, MemoryKind::host));
    memset(buffer->address(), 0, bytes);
  }
  auto copy = [&]() -> Status {
    TRY(queue->copy(made->address(), fetching[0]->address(), bytes));
    for (size_t list = 0; list < 2 && rows > 0; ++list) {
      size_t offset = kFetchedBytes + list * sizeof(int64_t);
      TRY(queue->copy(static_cast<std::byte *>(made->address()) +
                          static_cast<size_t>(more) * offset,
                      at(offset), static_cast<size_t>(rows) * sizeof(int64_t)));
    }
    return success();
  };
  Status copied;
  try {
    copied = copy();
  } catch (const std::bad_alloc &) {
    (void)finish(); // the first of them may be on its way
    throw;
  }
  TRY(finish());
  TRY(std::move(copied));
  // What was fetched and nobody has read yet.
  for (size_t i = 0; i < kMostSteps && rows > 0; ++i) {
    auto *to = static_cast<std::byte *>(fetching[i]->address());
    auto *from = static_cast<const std::byte *>(slots[i].results->address());
    auto old = static_cast<size_t>(rows), now = static_cast<size_t>(more);
    memcpy(to, from, old * sizeof(int64_t));
    memcpy(to + now * sizeof(int64_t), from + old * sizeof(int64_t),
           old * sizeof(float));
  }
  results = std::move(made);
  for (size_t i = 0; i < kMostSteps; ++i)
    slots[i].results = std::move(fetching[i]);
  rows = more;
  return success();
}

Status StepQueue::begin(std::span<const std::vector<int32_t> *const> given,
                        int64_t count) {
  constexpr size_t alignment = 64;
  auto room = [](const std::vector<int32_t> &list) {
    return (list.size() * sizeof(int32_t) + alignment - 1) / alignment *
           alignment;
  };
  size_t bytes = 0;
  for (const auto *list : given)
    bytes += room(*list);
  TRY(reserveNumbers(bytes));
  TRY(reserveRows(count));
  Slot &slot = slots[submitted % kMostSteps];
  auto *from = static_cast<std::byte *>(slot.numbers->address());
  auto *to = static_cast<std::byte *>(numbers->address());
  lists.clear();
  size_t end = 0;
  for (const auto *list : given) {
    if (!list->empty()) // one without memory has no address to copy from
      memcpy(from + end, list->data(), list->size() * sizeof(int32_t));
    lists.push_back(to + end);
    end += room(*list);
  }
  if (device->timesEvents()) {
    ASSIGN_OR_RETURN(slot.began, queue->record());
  }
  return queue->copy(to, from, bytes);
}

Status StepQueue::end() {
  Slot &slot = slots[submitted % kMostSteps];
  auto count = static_cast<size_t>(rows);
  TRY(queue->copy(drawn(), best(), count * sizeof(int64_t)));
  TRY(queue->copy(slot.results->address(), best(), count * kFetchedBytes));
  ASSIGN_OR_RETURN(slot.ended, queue->record());
  ++submitted;
  return success();
}

Status StepQueue::wait() {
  Slot &slot = slots[waited % kMostSteps];
  Status ended = slot.ended->wait(); // where it throws, the step runs still
  ++waited;
  TRY(std::move(ended));
  gap.reset();
  if (lastEnd && slot.began)
    gap = slot.began->nanosecondsSince(*lastEnd);
  lastEnd = std::move(slot.ended);
  return success();
}

const std::byte *StepQueue::fetched() const {
  const Slot &slot = slots[waitedSlot()];
  return static_cast<const std::byte *>(slot.results->address());
}

int64_t StepQueue::bestToken(size_t row) const {
  int64_t token;
  memcpy(&token, fetched() + row * sizeof(token), sizeof(token));
  return token;
}

float StepQueue::bestLogprob(size_t row) const {
  float logprob;
  memcpy(&logprob,
         fetched() + static_cast<size_t>(rows) * sizeof(int64_t) +
             row * sizeof(logprob),
         sizeof(logprob));
  return logprob;
}

} // namespace knapper::serving
