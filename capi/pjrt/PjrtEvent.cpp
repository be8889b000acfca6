#include "capi/pjrt/PjrtEvent.h"

namespace knapper::pjrt {

void Completion::complete(Code given, std::string text) {
  std::vector<Callback> called;
  {
    std::lock_guard lock(mutex);
    if (ready)
      return;
    code = given;
    message = std::move(text);
    ready.store(true, std::memory_order_release);
    called.swap(waiting);
  }
  condition.notify_all();
  for (Callback &callback : called)
    callback(error());
}

void Completion::wait() const {
  std::unique_lock lock(mutex);
  condition.wait(lock, [&] { return isReady(); });
}

PjrtError *Completion::error() const {
  std::lock_guard lock(mutex);
  return code == Code{} ? nullptr : fail(code, message);
}

void Completion::onReady(Callback callback) {
  {
    std::lock_guard lock(mutex);
    if (!isReady()) {
      waiting.push_back(std::move(callback));
      return;
    }
  }
  callback(error());
}

PluginEvent *readyEvent() {
  static PluginEvent event;
  return &event;
}

PluginEvent *makeEvent(std::shared_ptr<Completion> completion) {
  return completion ? new PluginEvent{std::move(completion)} : readyEvent();
}

void destroyEvent(PluginEvent *event) {
  if (event != readyEvent())
    delete event;
}

namespace {

PjrtError *noEvent() {
  return fail(Code::invalidArgument, "the event is null");
}

PjrtError *destroy(Event_Destroy_Args &a) {
  destroyEvent(a.event);
  return nullptr;
}

PjrtError *isReady(Event_IsReady_Args &a) {
  if (!a.event)
    return noEvent();
  a.is_ready = !a.event->completion || a.event->completion->isReady();
  return nullptr;
}

PjrtError *eventError(Event_Error_Args &a) {
  if (!a.event)
    return noEvent();
  if (!a.event->completion)
    return nullptr;
  if (!a.event->completion->isReady())
    return fail(Code::failedPrecondition,
                "the event is not ready: wait for it before its error is read");
  return a.event->completion->error();
}

PjrtError *await(Event_Await_Args &a) {
  if (!a.event)
    return noEvent();
  if (!a.event->completion)
    return nullptr;
  a.event->completion->wait();
  return a.event->completion->error();
}

PjrtError *onReady(Event_OnReady_Args &a) {
  if (!a.event || !a.callback)
    return noEvent();
  if (a.event->completion)
    a.event->completion->onReady(
        [callback = a.callback, user = a.user_arg](PjrtError *error) {
          callback(error, user);
        });
  else
    a.callback(nullptr, a.user_arg);
  return nullptr;
}

PjrtError *create(Event_Create_Args &a) {
  a.event = makeEvent(std::make_shared<Completion>());
  return nullptr;
}

PjrtError *set(Event_Set_Args &a) {
  if (!a.event)
    return noEvent();
  if (!a.event->completion || a.event->completion->isReady())
    return fail(Code::failedPrecondition, "the event is set already");
  std::string message;
  if (a.error_message)
    message.assign(a.error_message, a.error_message_size);
  a.event->completion->complete(a.error_code, std::move(message));
  return nullptr;
}

} // namespace

void setEventFunctions(PjrtApi &api) {
  api.Event_Destroy = guarded<destroy>;
  api.Event_IsReady = guarded<isReady>;
  api.Event_Error = guarded<eventError>;
  api.Event_Await = guarded<await>;
  api.Event_OnReady = guarded<onReady>;
  api.Event_Create = guarded<create, false>;
  api.Event_Set = guarded<set>;
}

} // namespace knapper::pjrt
