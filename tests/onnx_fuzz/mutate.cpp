// Imports damaged models: onnx-fuzz SEEDS [--count N] [--seed S] [--only I]
//                            [--run yes] [--write FOLDER] [--state FILE]
//
// Case I takes a file of SEEDS and damages it: even cases edit bytes, odd ones
// edit the graph so that it still parses. Every import must end within 10
// seconds, with a valid module or a UserError that says where. `--run yes`
// compiles and runs what import accepts, within the same 10 seconds: results,
// a UserError or a DeviceError. `--only` repeats one case and prints its
// answer, `--write` keeps accepted models as files. With `--state` the run goes
// on where the last one with that file ended, past a case in which it died.
#include "frontends/onnx/ImportOnnx.h"
#include "frontends/onnx/onnx.pb.h"
#include "tests/onnx_fuzz/execute.h"

#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sys/time.h>
#include <unistd.h>

using namespace knapper;
namespace fs = std::filesystem;

namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KNAPPER_ADDRESS_SANITIZER 1
extern "C" void __sanitizer_set_death_callback(void (*)());
#endif
#endif

volatile long currentCase = -1;
constexpr int kSeconds = 10;

/// Starts (or, with 0, stops) the clocks of a case: of the processor's time,
/// because other processes may have the processor, and a long one of the
/// world's, for what waits for ever.
void limitSeconds(int seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(static_cast<unsigned>(12 * seconds));
}

void onDeath() {
  std::fprintf(stderr, "onnx-fuzz: died in case %ld\n", currentCase);
}

void onSignal(int signal) {
  char text[96];
  int length =
      std::snprintf(text, sizeof text, "onnx-fuzz: signal %d in case %ld\n",
                    signal, currentCase);
  (void)!write(2, text, static_cast<size_t>(length));
  _exit(1);
}

using Random = std::mt19937_64;

int64_t below(Random &random, size_t limit) {
  return limit ? static_cast<int64_t>(random() % limit) : 0;
}

template <typename T> T &pick(Random &random, std::vector<T> &list) {
  return list[static_cast<size_t>(below(random, list.size()))];
}

constexpr int64_t numbers[] = {0,         1,         -1,        2,
                               3,         -2,        7,         64,
                               65537,     INT32_MAX, INT32_MIN, INT64_MAX,
                               INT64_MIN, 1LL << 40, -100,      1LL << 62};
int64_t number(Random &random) {
  return numbers[below(random, std::size(numbers))];
}

void damageBytes(Random &random, std::string &data) {
  for (int64_t i = below(random, 8) + 1; i > 0 && !data.empty(); --i) {
    size_t at = static_cast<size_t>(below(random, data.size()));
    size_t length = static_cast<size_t>(below(random, 16)) + 1;
    switch (below(random, 6)) {
    case 0:
      data[at] = static_cast<char>(random());
      break;
    case 1:
      data[at] = static_cast<char>(data[at] ^ (1 << below(random, 8)));
      break;
    case 2:
      data.erase(at, length);
      break;
    case 3:
      data.insert(
          at,
          data.substr(static_cast<size_t>(below(random, data.size())), length));
      break;
    case 4:
      data.resize(at);
      break;
    default:
      data.insert(at, length, static_cast<char>(random()));
    }
  }
}

void damageTensor(Random &random, onnx::TensorProto &tensor) {
  switch (below(random, 6)) {
  case 0:
    tensor.add_dims(number(random));
    break;
  case 1:
    if (tensor.dims_size())
      tensor.set_dims(static_cast<int>(below(random, tensor.dims().size())),
                      number(random));
    break;
  case 2:
    tensor.set_data_type(static_cast<int32_t>(below(random, 30)));
    break;
  case 3: {
    std::string data = tensor.raw_data();
    if (!data.empty())
      data[static_cast<size_t>(below(random, data.size()))] =
          static_cast<char>(random());
    tensor.set_raw_data(data);
    break;
  }
  case 4:
    tensor.set_raw_data(
        tensor.raw_data() +
        std::string(static_cast<size_t>(below(random, 9)), 'x'));
    break;
  default: {
    onnx::StringStringEntryProto *entry = tensor.add_external_data();
    entry->set_key("location");
    const char *places[] = {"../x", "/etc/passwd", "x", "", "a/../../b", "."};
    entry->set_value(places[below(random, std::size(places))]);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  }
  }
}

void damageAttribute(Random &random, onnx::AttributeProto &attribute) {
  switch (below(random, 6)) {
  case 0:
    attribute.set_i(number(random));
    break;
  case 1:
    if (attribute.ints_size())
      attribute.set_ints(
          static_cast<int>(below(random, attribute.ints().size())),
          number(random));
    break;
  case 2:
    attribute.add_ints(number(random));
    break;
  case 3:
    attribute.set_type(
        static_cast<onnx::AttributeProto::AttributeType>(below(random, 15)));
    break;
  case 4:
    attribute.set_s("bogus");
    attribute.set_f(static_cast<float>(number(random)));
    break;
  default:
    if (attribute.has_t())
      damageTensor(random, *attribute.mutable_t());
    else
      attribute.set_name("axis");
  }
}

void damageNode(Random &random, onnx::NodeProto &node,
                std::vector<onnx::NodeProto> &all) {
  onnx::NodeProto &other = pick(random, all);
  switch (below(random, 8)) {
  case 0:
    node.set_op_type(other.op_type());
    break;
  case 1:
    if (node.input_size() && other.input_size())
      *node.mutable_input(
          static_cast<int>(below(random, node.input().size()))) =
          other.input(static_cast<int>(below(random, other.input().size())));
    break;
  case 2:
    if (node.input_size() && other.output_size())
      *node.mutable_input(static_cast<int>(
          below(random, node.input().size()))) = other.output(0);
    break;
  case 3:
    if (node.input_size())
      node.mutable_input()->erase(node.mutable_input()->begin() +
                                  below(random, node.input().size()));
    break;
  case 4:
    if (node.input_size())
      node.add_input(node.input(0));
    break;
  case 5:
    if (node.attribute_size())
      node.mutable_attribute()->pop_back();
    break;
  case 6:
    if (node.input_size())
      *node.mutable_input(0) = "";
    break;
  default:
    if (node.attribute_size())
      damageAttribute(random, pick(random, *node.mutable_attribute()));
    else if (other.attribute_size())
      *node.add_attribute() = other.attribute(0);
  }
}

void damageGraph(Random &random, onnx::ModelProto &model) {
  onnx::GraphProto &graph = *model.mutable_graph();
  std::vector<onnx::NodeProto> &nodes = *graph.mutable_node();
  for (int64_t i = below(random, 3) + 1; i > 0; --i)
    switch (below(random, 12)) {
    case 0:
      if (graph.initializer_size())
        damageTensor(random, pick(random, *graph.mutable_initializer()));
      break;
    case 1: {
      if (!graph.input_size())
        break;
      auto *type = pick(random, *graph.mutable_input())
                       .mutable_type()
                       ->mutable_tensor_type();
      auto &dims = *type->mutable_shape()->mutable_dim();
      const char *names[] = {"batch", "2*batch", "s + 1", "floordiv(s, 0)",
                             "((((",  "-",       ""};
      if (dims.empty() || below(random, 4) == 0)
        type->set_elem_type(static_cast<int32_t>(below(random, 28)));
      else if (below(random, 3) == 0)
        pick(random, dims)
            .set_dim_param(names[below(random, std::size(names))]);
      else if (below(random, 3) == 0)
        dims.pop_back();
      else
        pick(random, dims).set_dim_value(number(random));
      break;
    }
    case 2:
      if (nodes.size() > 1)
        std::swap(pick(random, nodes), pick(random, nodes));
      break;
    case 3:
      if (!nodes.empty())
        nodes.erase(nodes.begin() + below(random, nodes.size()));
      break;
    case 4:
      if (!nodes.empty()) {
        onnx::NodeProto copy = pick(random, nodes);
        if (below(random, 4)) // else its results have two definitions
          for (std::string &output : *copy.mutable_output())
            output += "_copy" + std::to_string(nodes.size());
        if (!graph.output().empty() && copy.output_size() && below(random, 2))
          pick(random, *graph.mutable_output()).set_name(copy.output(0));
        nodes.push_back(copy);
      }
      break;
    case 5:
      if (model.opset_import_size())
        pick(random, *model.mutable_opset_import())
            .set_version(below(random, 30));
      break;
    case 6:
      if (model.functions_size() && !nodes.empty()) {
        onnx::FunctionProto &function =
            pick(random, *model.mutable_functions());
        // Possibly a function that calls itself.
        *function.add_node() = pick(random, nodes);
        if (function.node_size() && below(random, 2))
          damageNode(random, pick(random, *function.mutable_node()), nodes);
      }
      break;
    default:
      if (!nodes.empty())
        damageNode(random, pick(random, nodes), nodes);
    }
}

} // namespace

int main(int argc, char **argv) {
  constexpr const char *usage =
      "usage: onnx-fuzz SEEDS [--count N] [--seed S] [--only I] "
      "[--run yes] [--write FOLDER] [--state FILE]\n";
  auto wrong = [&](const std::string &what) {
    llvm::errs() << "onnx-fuzz: " << what << "\n" << usage;
    return 2;
  };
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]) == "--help") {
      llvm::outs() << usage;
      return 0;
    }
  if (argc < 2)
    return wrong("no folder of seeds");
  long count = 5000, only = -1;
  unsigned long seed = 1;
  bool execute = false;
  std::string folder, state;
  for (int i = 2; i < argc; i += 2) {
    std::string option = argv[i];
    if (i + 1 == argc)
      return wrong("no value for '" + option + "'");
    if (option == "--count")
      count = std::atol(argv[i + 1]);
    else if (option == "--seed")
      seed = std::strtoul(argv[i + 1], nullptr, 10);
    else if (option == "--run")
      execute = true;
    else if (option == "--only")
      only = std::atol(argv[i + 1]);
    else if (option == "--write")
      folder = argv[i + 1];
    else if (option == "--state")
      state = argv[i + 1];
    else
      return wrong("no option '" + option + "'");
  }
  if (!fs::is_directory(argv[1]))
    return wrong("no folder '" + std::string(argv[1]) + "'");
  long first = 0;
  if (!state.empty())
    std::ifstream(state) >> first;
  long end = first + count;
  if (only >= 0) {
    first = only;
    end = only + 1;
  }
  for (int signal : {SIGALRM, SIGPROF})
    std::signal(signal, onSignal);
#ifdef KNAPPER_ADDRESS_SANITIZER
  __sanitizer_set_death_callback(onDeath); // it reports signals itself
#else
  (void)onDeath;
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGTRAP})
    std::signal(signal, onSignal);
#endif
  std::map<std::string, std::string> files; // sorted: cases are reproducible
  for (const fs::directory_entry &entry : fs::directory_iterator(argv[1]))
    if (entry.path().extension() == ".onnx") {
      std::ifstream in(entry.path(), std::ios::binary);
      files[entry.path().filename()] = std::string(
          std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  std::vector<std::string> seeds;
  for (auto &[name, data] : files)
    seeds.push_back(data);
  if (seeds.empty()) {
    llvm::errs() << "onnx-fuzz: no seeds in " << argv[1] << "\n";
    return 2;
  }
  long accepted = 0, completed = 0, refused = 0, bad = 0;
  auto context = std::make_unique<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
  for (long i = first; i < end; ++i) {
    currentCase = i;
    if (!state.empty())
      std::ofstream(state) << i + 1 << "\n";
    if (i % 50 == 0) // attributes of old cases pile up
      context = std::make_unique<mlir::MLIRContext>(
          mlir::MLIRContext::Threading::DISABLED);
    Random random(seed * 1000003 + static_cast<unsigned long>(i));
    std::string data = pick(random, seeds);
    onnx::ModelProto model;
    if (i % 2 && model.ParseFromString(data)) {
      damageGraph(random, model);
      data = model.SerializeAsString();
    } else {
      damageBytes(random, data);
    }
    limitSeconds(kSeconds);
    OnnxSource source;
    source.bytes = data;
    source.folder = argv[1];
    ModelBuffers buffers;
    auto module = importOnnx(*context, source, {}, &buffers);
    if (module) {
      ++accepted;
      if (execute) {
        Status status = fuzz::compileAndRun(data);
        completed += bool(status);
        if (!status && status.error().kind == ErrorKind::internal) {
          ++bad;
          llvm::errs() << "onnx-fuzz: case " << i << ": "
                       << status.error().message() << "\n";
        }
        if (only >= 0)
          llvm::outs() << (status ? "ran" : status.error().message()) << "\n";
      }
      limitSeconds(0);
      if (!folder.empty()) {
        std::ofstream out(folder + "/" + std::to_string(i) + ".onnx",
                          std::ios::binary);
        out << data;
      }
      if (only >= 0)
        (*module)->print(llvm::outs());
      continue;
    }
    limitSeconds(0);
    ++refused;
    const Error &error = module.error();
    if (only >= 0)
      llvm::outs() << error.message() << "\n";
    if (error.kind != ErrorKind::user || error.where.empty() ||
        error.what.empty()) {
      ++bad;
      llvm::errs() << "onnx-fuzz: case " << i << ": " << error.message()
                   << "\n";
    }
  }
  llvm::outs() << accepted << " accepted, ";
  if (execute)
    llvm::outs() << completed << " of them ran, ";
  llvm::outs() << refused << " refused, " << bad << " badly\n";
  return bad ? 1 : 0;
}
