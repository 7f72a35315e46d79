/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c: how many connections each client has. A client is an IPv4 address, an IPv6
 * network of 64 bits, which is what one customer of a provider usually has, or a user of
 * this machine. */
#include "serve/http/http_inside.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

bool peer_is_local(const union peer_address *address)
{
    switch (address->family) {
    case AF_INET: return (ntohl(address->ip4.sin_addr.s_addr) >> 24) == 127;
    case AF_INET6: return IN6_IS_ADDR_LOOPBACK(&address->ip6.sin6_addr);
    default: return true;
    }
}

static void peer_key(const union peer_address *address, struct peer_count *peer)
{
    size_t size;
    const void *bytes;
    switch (address->family) {
    case AF_INET:
        bytes = &address->ip4.sin_addr;
        size = 4;
        break;
    case AF_INET6:
        bytes = &address->ip6.sin6_addr;
        size = 8;
        break;
    default:
        bytes = &address->local.uid;
        size = sizeof address->local.uid;
        break;
    }
    peer->key[0] = (char)address->family;
    memcpy(peer->key + 1, bytes, size);
    peer->key_size = (uint8_t)(size + 1);
}

bool peer_enter(struct http_server *server, const union peer_address *address,
                struct peer_count **ret_peer)
{
    struct peer_count wanted = { .is_local = peer_is_local(address) };
    peer_key(address, &wanted);
    struct peer_count *peer =
        map_get(&server->peers, (struct view){ wanted.key, wanted.key_size });
    if (!peer) {
        void *old;
        peer = malloc(sizeof *peer);
        if (!peer)
            return false;
        *peer = wanted;
        if (!map_put(&server->peers, (struct view){ peer->key, peer->key_size }, peer, &old)) {
            free(peer);
            return false;
        }
    }
    bool unlimited = peer->is_local && server->limits.local_peers_unlimited;
    if (!unlimited && peer->connections >= server->limits.peer_connections)
        return false;
    peer->connections++;
    *ret_peer = peer;
    return true;
}

void peer_leave(struct http_server *server, struct peer_count *peer)
{
    check(peer->connections > 0);
    if (--peer->connections > 0)
        return;
    map_take(&server->peers, (struct view){ peer->key, peer->key_size });
    free(peer);
}

void peer_text(const union peer_address *address, char text[HTTP_ADDRESS_MAX])
{
    char name[INET6_ADDRSTRLEN] = "";
    if (address->family == AF_INET) {
        uv_ip4_name(&address->ip4, name, sizeof name);
        snprintf(text, HTTP_ADDRESS_MAX, "%s:%u", name, ntohs(address->ip4.sin_port));
    } else if (address->family == AF_INET6) {
        uv_ip6_name(&address->ip6, name, sizeof name);
        snprintf(text, HTTP_ADDRESS_MAX, "[%s]:%u", name, ntohs(address->ip6.sin6_port));
    } else {
        snprintf(text, HTTP_ADDRESS_MAX, "unix");
    }
}
