// SPDX-License-Identifier: Apache-2.0
// lock.go: a lock over HTTP, with nothing but Go's own packages: acquires a key, renews its lease while it
// works, changes the key's state, and releases it.
//
//	go run lock.go [URL [KEY]]      for example: go run lock.go http://127.0.0.1:9341 visits
//
// HOLDFAST_SERVER_TOKEN is the token, if the server needs one. docs/serve.md explains the requests.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const (
	ttl   = 30 * time.Second
	tries = 5
)

var server, key = "http://127.0.0.1:9341", "visits"

// errRefused is in the error of a request that the server refuses (403), as it does when the lease has ended.
var errRefused = errors.New("refused")

type lease struct {
	LeaseID      string `json:"lease_id"`
	FencingToken uint64 `json:"fencing_token"`
	WaitedMS     int64  `json:"waited_ms"`
	RemainingMS  int64  `json:"remaining_ms"`
}

func requestID() string {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		panic(err)
	}
	return hex.EncodeToString(id)
}

// send makes one attempt. again says whether another one may succeed.
func send(ctx context.Context, method, route string, body []byte, headers map[string]string) (data []byte, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, method, server+route, bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	if token := os.Getenv("HOLDFAST_SERVER_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, true, err
	}
	defer reply.Body.Close()
	data, err = io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode == http.StatusForbidden {
		err = fmt.Errorf("%s: %w: %s", route, errRefused, data)
	} else if err == nil && reply.StatusCode >= 400 {
		err = fmt.Errorf("%s: %s", route, data)
	}
	return data, err != nil && reply.StatusCode >= 500, err
}

// call is one request. Without a reply it is sent again: the same request id makes sure that it happens once.
func call(ctx context.Context, method, route string, body []byte, headers map[string]string) ([]byte, error) {
	for tried := 1; ; tried++ {
		data, again, err := send(ctx, method, route, body, headers)
		if err == nil || !again || tried == tries {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond << tried):
		}
	}
}

func post(ctx context.Context, route string, members map[string]any, result any) error {
	body, err := json.Marshal(members)
	if err != nil {
		return err
	}
	data, err := call(ctx, "POST", route, body, map[string]string{"Content-Type": "application/json"})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, result)
}

// keep renews the lease until the context ends, and calls lost if the lease ends before.
func keep(ctx context.Context, held lease, end time.Time, lost context.CancelFunc) {
	renew := time.NewTicker(ttl / 3)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(end)):
			lost()
			return
		case <-renew.C:
			sent := time.Now()
			var renewed lease
			renewing, done := context.WithDeadline(ctx, end)
			err := post(renewing, "/v1/keepalive", map[string]any{"key": key, "lease_id": held.LeaseID}, &renewed)
			done()
			if errors.Is(err, errRefused) {
				lost()
				return
			}
			if err == nil { // after any other error the next one may succeed
				end = sent.Add(time.Duration(renewed.RemainingMS) * time.Millisecond)
			}
		}
	}
}

// withLock calls work while the lease is held. The context ends when it has been lost.
func withLock(work func(context.Context, lease) error) error {
	// The time is noted before the request is sent, so a slow reply makes the lease shorter, never longer.
	asked := time.Now()
	var held lease
	err := post(context.Background(), "/v1/acquire", map[string]any{"key": key, "owner": fmt.Sprintf("go-%d", os.Getpid()),
		"ttl_ms": ttl.Milliseconds(), "block_seconds": 60, "request_id": requestID()}, &held)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop() // the lease is not renewed any more, even if work panics
	go keep(ctx, held, asked.Add(time.Duration(held.WaitedMS+held.RemainingMS)*time.Millisecond), stop)
	err = work(ctx, held)
	stop()
	var released struct{ Released bool }
	if failed := post(context.Background(), "/v1/release", map[string]any{"key": key, "lease_id": held.LeaseID,
		"request_id": requestID()}, &released); err == nil {
		err = failed
	}
	return err
}

func visit(ctx context.Context, held lease) error {
	state, err := call(ctx, "GET", "/v1/get?key="+url.QueryEscape(key), nil, map[string]string{"X-Lease-ID": held.LeaseID})
	if err != nil {
		return err
	}
	visits, _ := strconv.Atoi(string(state)) // an empty reply if there is no state yet
	visits++
	// A request with this context is not sent, or given up, once the lease is lost.
	_, err = call(ctx, "POST", "/v1/update?key="+url.QueryEscape(key), []byte(strconv.Itoa(visits)), map[string]string{
		"X-Lease-ID":      held.LeaseID,
		"X-Fencing-Token": strconv.FormatUint(held.FencingToken, 10), // a holder of the past is refused
		"X-Request-ID":    requestID(),
	})
	if err == nil {
		fmt.Printf("visit %d, with token %d\n", visits, held.FencingToken)
	}
	return err
}

func main() {
	if len(os.Args) > 1 {
		server = os.Args[1]
	}
	if len(os.Args) > 2 {
		key = os.Args[2]
	}
	if err := withLock(visit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
