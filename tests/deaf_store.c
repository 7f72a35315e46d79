#include "deaf_store.h"

static struct deaf *deaf_of(struct store *store)
{
    return (struct deaf *)(void *)store;
}

static bool hears(struct deaf *deaf)
{
    if (deaf->is_deaf && !mono_before(env_now(deaf->base.env), deaf->hears_again))
        deaf->is_deaf = deaf->armed = false;
    return !deaf->is_deaf;
}

static void deaf_get(struct store *store, struct get_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (hears(deaf_of(store)))
            store_get(deaf_of(store)->inner, &calls[i]);
        else
            error_set(&calls[i].error, HF_UNAVAILABLE, "deaf");
    }
}

static void deaf_put(struct store *store, struct put_call *calls, size_t count)
{
    struct deaf *deaf = deaf_of(store);
    for (size_t i = 0; i < count; i++) {
        bool first = hears(deaf) && deaf->armed;
        if (!deaf->is_deaf && (!first || deaf->does_it))
            store_put(deaf->inner, &calls[i]);
        if (first) {
            deaf->is_deaf = true;
            deaf->hears_again = mono_add(env_now(deaf->base.env), deaf->deaf_for);
        }
        if (deaf->is_deaf)
            error_set(&calls[i].error, HF_UNSURE, "deaf");
    }
}

static void deaf_remove(struct store *store, struct delete_call *calls, size_t count)
{
    store_delete_many(deaf_of(store)->inner, calls, count);
}

static void deaf_list(struct store *store, struct list_call *call)
{
    store_list(deaf_of(store)->inner, call);
}

static void deaf_get_file(struct store *store, struct get_call *call, int fd,
                          const struct progress *progress)
{
    store_get_file(deaf_of(store)->inner, call, fd, progress);
}

static void deaf_put_file(struct store *store, struct put_call *call, int fd,
                          const struct progress *progress)
{
    store_put_file(deaf_of(store)->inner, call, fd, progress);
}

static void deaf_close(struct store *store)
{
    (void)store;
}

static const struct store_ops deaf_ops = {
    .name = "deaf",
    .get = deaf_get,
    .put = deaf_put,
    .remove = deaf_remove,
    .list = deaf_list,
    .get_file = deaf_get_file,
    .put_file = deaf_put_file,
    .close = deaf_close,
};

void deaf_init(struct deaf *deaf, struct store *inner, bool does_it, struct span deaf_for)
{
    *deaf = (struct deaf){
        .base = *inner, .inner = inner, .does_it = does_it, .deaf_for = deaf_for
    };
    deaf->base.ops = &deaf_ops;
}
