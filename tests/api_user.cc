// api_user.cc URL: a C++ program that uses the public headers and the shared library, and nothing else
// of ours. One row of `cases` for each part; each prints a TAP line. tests/api_ctypes_test.py does the
// same from Python.
#include <holdfast.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

// A call that is not OK ends its case.
class Error
{
  public:
    operator hf_error *() { return &error; }
    Error &operator=(hf_status status)
    {
        if (status != HF_OK)
            throw std::runtime_error(std::string(hf_status_name(status)) + ": " + error.why);
        return *this;
    }

  private:
    hf_error error = {};
};

void expect(bool good, const char *what)
{
    if (!good)
        throw std::runtime_error(what);
}

// Handles that free themselves.
template <typename T, void (*free_handle)(T *)> struct Free {
    void operator()(T *handle) const { free_handle(handle); }
};
using Client = std::unique_ptr<hf_client, Free<hf_client, hf_client_close>>;
using Lock = std::unique_ptr<hf_lock, Free<hf_lock, hf_lock_free>>;
using Key = std::unique_ptr<hf_key, Free<hf_key, hf_key_free>>;
using Txn = std::unique_ptr<hf_txn, Free<hf_txn, hf_txn_free>>;

Client open_client(const char *url)
{
    hf_client_options options = HF_CLIENT_OPTIONS;
    hf_client *client = nullptr;
    Error error;
    options.holder = "a C++ program";
    error = hf_client_open(url, &options, &client, error);
    return Client(client);
}

Lock new_lock(hf_client *client, const char *scope, const hf_lock_options *options = nullptr)
{
    hf_lock *lock = nullptr;
    Error error;
    error = hf_lock_new(client, scope, options, &lock, error);
    return Lock(lock);
}

void use_lock(hf_client *client)
{
    hf_lock_options options = HF_LOCK_OPTIONS;
    Error error;
    hf_error why;
    options.ttl_ms = 10000;
    Lock lock = new_lock(client, "cpp/lock", &options), other = new_lock(client, "cpp/lock");
    error = hf_lock_acquire(lock.get(), 1000, error);
    error = hf_lock_check(lock.get(), error);
    expect(hf_lock_acquire(other.get(), 0, &why) == HF_HELD, "it is held");
    uint64_t token = hf_lock_token(lock.get());
    error = hf_lock_release(lock.get(), error);
    error = hf_lock_acquire(other.get(), 1000, error);
    expect(hf_lock_token(other.get()) > token, "tokens rise");
}

void use_fenced(hf_client *client)
{
    Error error;
    void *data = nullptr;
    size_t size = 0;
    uint64_t token = 0;
    Lock lock = new_lock(client, "cpp/fence");
    error = hf_lock_acquire(lock.get(), 1000, error);
    error = hf_fenced_put(lock.get(), "cpp/object", "hello", 5, error);
    error = hf_fenced_get(client, "cpp/object", 100, &data, &size, &token, error);
    std::string text(static_cast<char *>(data), size);
    hf_free(data);
    expect(text == "hello" && token == hf_lock_token(lock.get()), "it is as written");
}

void use_key(hf_client *client)
{
    hf_key_info info = HF_KEY_INFO;
    hf_key_if version = HF_KEY_IF;
    hf_key *made = nullptr;
    hf_error why;
    Error error;
    error = hf_key_new(client, "cpp/key", nullptr, &made, error);
    Key key(made);
    error = hf_key_acquire(key.get(), 1000, nullptr, error);
    error = hf_key_update(key.get(), "one", 3, nullptr, &info, error);
    version.version_set = true;
    version.version = info.version + 1;
    expect(hf_key_update(key.get(), "two", 3, &version, &info, &why) == HF_CONFLICT &&
               info.outcome == HF_KEY_VERSION_CONFLICT,
           "another version is refused");
    error = hf_key_release(key.get(), HF_COMMIT, error);
}

std::string read_key(hf_client *client, const char *name)
{
    void *data = nullptr;
    size_t size = 0;
    Error error;
    error = hf_key_get(client, name, 100, &data, &size, nullptr, error);
    std::string text(static_cast<char *>(data), size);
    hf_free(data);
    return text;
}

void use_transaction(hf_client *client)
{
    const std::vector<const char *> names = { "cpp/ann", "cpp/joe" };
    std::vector<hf_key *> keys(names.size());
    hf_txn *made = nullptr;
    hf_decision decision = HF_ROLLBACK;
    Error error;
    error = hf_txn_begin(client, nullptr, &made, error);
    Txn txn(made);
    error = hf_txn_acquire(txn.get(), names.data(), names.size(), nullptr, 1000, keys.data(), error);
    error = hf_key_update(keys[0], "60", 2, nullptr, nullptr, error);
    error = hf_key_update(keys[1], "40", 2, nullptr, nullptr, error);
    error = hf_txn_commit(txn.get(), &decision, error);
    expect(read_key(client, names[0]) == "60" && read_key(client, names[1]) == "40", "both are there");
}

const struct {
    const char *sentence;
    std::function<void(hf_client *)> use;
} cases[] = {
    { "C++: a lock is held alone, and tokens rise", use_lock },
    { "C++: a fenced object is written and read", use_fenced },
    { "C++: a key is changed under its lease, and only as the version that was named", use_key },
    { "C++: a transaction changes two keys", use_transaction },
};

} // namespace

int main(int argc, char **argv)
{
    int number = 0, failed = 0;
    if (argc != 2)
        return 2;
    for (const auto &one : cases) {
        try {
            one.use(open_client(argv[1]).get());
            std::printf("ok %d - %s\n", ++number, one.sentence);
        } catch (const std::exception &why) {
            failed++;
            std::printf("not ok %d - %s\n# %s\n", ++number, one.sentence, why.what());
        }
    }
    std::printf("1..%d\n", number);
    return failed > 0;
}
