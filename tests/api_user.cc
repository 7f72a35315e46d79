/* SPDX-License-Identifier: Apache-2.0 */
// api_user.cc URL: a C++ program that uses the public headers and the shared library, and nothing else
// of ours. One row of `cases` for each part; each prints a TAP line. tests/api_ctypes_test.py does the
// same from Python.
#include <holdfast.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

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
using Compact = std::unique_ptr<hf_compact, Free<hf_compact, hf_compact_close>>;
using Index = std::unique_ptr<hf_index, Free<hf_index, hf_index_close>>;
using Record = std::unique_ptr<hf_index_record, Free<hf_index_record, hf_index_record_free>>;
using Member = std::unique_ptr<hf_elect_member, Free<hf_elect_member, hf_elect_leave>>;
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
    error = hf_key_begin(key.get(), &info, error);
    error = hf_key_poll(key.get(), &info, error);
    error = hf_key_cancel(key.get(), error);
    hf_key_options named = HF_KEY_OPTIONS;
    char text[HF_LEASE_TEXT_MAX];
    error = hf_lock_text(hf_key_lock(key.get()), text, error);
    hf_key_detach(key.release());
    named.unconfirmed = true;
    error = hf_key_adopt(client, text, &named, &made, error);
    key.reset(made);
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

// A scratch folder with two files, "1" and "2".
class Files
{
  public:
    Files(const char *first, const char *second)
    {
        expect(mkdtemp(folder) != nullptr, "a scratch folder");
        write("1", first);
        write("2", second);
    }
    ~Files() { std::filesystem::remove_all(folder); }
    std::string path(const std::string &name) const { return folder + ("/" + name); }
    std::string read(const std::string &name) const
    {
        std::ifstream file(path(name));
        return { std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>() };
    }

  private:
    void write(const std::string &name, const char *text) { std::ofstream(path(name)) << text; }
    char folder[32] = "/tmp/holdfast-user-XXXXXX";
};

void use_merge(hf_client *)
{
    Files files("id,when\n1,2026-01-01T00:00:00Z\n", "id,when\n1,2026-01-02T00:00:00Z\n");
    const std::string first = files.path("1"), second = files.path("2");
    const char *inputs[] = { first.c_str(), second.c_str() };
    hf_merge_options options = HF_MERGE_OPTIONS;
    hf_merge_report report = HF_MERGE_REPORT;
    Error error;
    options.format = HF_MERGE_CSV;
    options.key = "id";
    options.time = "when";
    error = hf_merge(inputs, 2, files.path("out").c_str(), &options, &report, error);
    expect(files.read("out") == "id,when\n1,2026-01-02T00:00:00Z\n" && report.rows_superseded == 1,
           "the latest of each key is there");
}

// The smallest format of one's own: bytes, one after the other.
hf_status join_sources(void *argument, const hf_merger_job *job, hf_merged *, hf_error *)
{
    std::ofstream output(job->output);
    for (size_t i = 0; i < job->source_count; i++)
        output << std::ifstream(job->sources[i].path).rdbuf();
    ++*static_cast<int *>(argument);
    return HF_OK;
}

void use_compaction(hf_client *client)
{
    const std::string own = std::to_string(getpid()); // equal files would be taken once
    Files files(("one of " + own).c_str(), ("two of " + own).c_str());
    const std::string first = files.path("1"), second = files.path("2");
    const char *paths[] = { first.c_str(), second.c_str() };
    hf_compact_settings settings = HF_COMPACT_SETTINGS;
    hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    hf_compact_totals totals = HF_COMPACT_TOTALS;
    hf_merger merger = HF_MERGER;
    hf_compact *made = nullptr;
    Error error;
    int merged = 0;
    error = hf_compact_open(client, "cpp", nullptr, &made, error);
    Compact compact(made);
    settings.format = HF_MERGE_EXEC;
    settings.command = "my-engine {inputs} {output}";
    error = hf_compact_create(compact.get(), &settings, error);
    error = hf_compact_ingest(compact.get(), paths, 2, nullptr, nullptr, error);
    merger.name = "my-engine";
    merger.merge = join_sources;
    merger.argument = &merged;
    options.merger = &merger;
    options.force = true;
    error = hf_compact_run(compact.get(), &options, &totals, error);
    expect(merged == 1 && totals.groups_committed == 1, "our merger merged");
}

void use_index(hf_client *client)
{
    static const char *const fields[] = { "host", "owner", "seen" };
    const hf_index_value values[] = { { "host", "a.example" }, { "owner", "ada" } };
    hf_index_options options = HF_INDEX_OPTIONS;
    hf_index *made = nullptr;
    hf_index_record *found = nullptr;
    Error error;
    options.fields = fields;
    options.field_count = 3;
    options.key = "host";
    options.time = "seen";
    error = hf_index_create(client, "cpp", &options, nullptr, &made, error);
    Index index(made);
    error = hf_index_put(index.get(), values, 2, error);
    error = hf_index_compile(index.get(), nullptr, nullptr, error);
    error = hf_index_get(index.get(), "a.example", &found, error);
    Record record(found);
    expect(std::string(hf_index_record_value(found, "owner", nullptr)) == "ada", "it is found");
}

void use_election(hf_client *client)
{
    const hf_elect_part parts[] = { { "writer-1", 40 }, { "writer-2", 7 } };
    const char *const members[] = { "anna", "joe" };
    hf_elect_work work = HF_ELECT_WORK;
    hf_elect_options options = HF_ELECT_OPTIONS;
    hf_elect_member *made = nullptr;
    size_t anna = 2, joe = 2, own = 2;
    Error error;
    work.parts = parts;
    work.part_count = 2;
    error = hf_elect_rank(&work, members, 2, "anna", &anna, nullptr, error);
    error = hf_elect_rank(&work, members, 2, "joe", &joe, nullptr, error);
    expect(anna + joe == 1, "one is first, the other second");
    options.name = "anna";
    error = hf_elect_join(client, "cpp", &options, &made, error);
    Member member(made);
    error = hf_elect_rank_own(member.get(), &work, &own, nullptr, error);
    expect(own == 0 && hf_elect_starts_in_ms(own, 10000, 0) == 0, "alone it starts at once");
}

const struct {
    const char *sentence;
    std::function<void(hf_client *)> use;
} cases[] = {
    { "C++: a lock is held alone, and tokens rise", use_lock },
    { "C++: a fenced object is written and read", use_fenced },
    { "C++: a key is changed under its lease, and only as the version that was named", use_key },
    { "C++: a transaction changes two keys", use_transaction },
    { "C++: a merge keeps the latest record of each key", use_merge },
    { "C++: compaction calls a merger of the program's own", use_compaction },
    { "C++: an index finds a record that was put and compiled", use_index },
    { "C++: an election ranks, with a store and without one", use_election },
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
