package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
)

// requests counts the requests of an operator by verb and resource, like "create pods".
type requests map[string]int

// events are the requests that write Events.
func (r requests) events() int { return r["create events"] + r["patch events"] + r["update events"] }

// total are all other requests.
func (r requests) total() int {
	sum := -r.events()
	for _, n := range r {
		sum += n
	}
	return sum
}

// writes are the requests that store something, without Events.
func (r requests) writes() int {
	sum := 0
	for what, n := range r {
		switch verb, resource, _ := strings.Cut(what, " "); verb {
		case "get", "list", "watch":
		default:
			if resource != "events" && !strings.HasSuffix(resource, "reviews") { // a review is not stored
				sum += n
			}
		}
	}
	return sum
}

// auditLog is the API server's log of the operators' requests.
type auditLog string

// size returns the size of the log.
func (l auditLog) size() (int64, error) {
	info, err := os.Stat(string(l))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// since counts the requests of a user that were logged after the log had a size.
func (l auditLog) since(size int64, user string) (requests, error) {
	file, err := os.Open(string(l))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(size, 0); err != nil {
		return nil, err
	}
	count := make(requests)
	for decoder := json.NewDecoder(file); decoder.More(); {
		var entry struct {
			Stage, Verb string
			User        struct{ Username string }
			ObjectRef   *struct{ Resource, Subresource string }
		}
		if err := decoder.Decode(&entry); errors.Is(err, io.ErrUnexpectedEOF) {
			break // the operator still sends requests
		} else if err != nil {
			return nil, err
		}
		if entry.User.Username != user || entry.ObjectRef == nil { // discovery and health have no object
			continue
		}
		if (entry.Verb == "watch") != (entry.Stage == "ResponseStarted") {
			continue
		}
		resource := entry.ObjectRef.Resource
		if sub := entry.ObjectRef.Subresource; sub != "" {
			resource += "/" + sub
		}
		count[entry.Verb+" "+resource]++
	}
	return count, nil
}
