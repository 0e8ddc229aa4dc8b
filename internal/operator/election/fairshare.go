package election

import (
	"cmp"
	"fmt"
	"slices"
)

// layoutOf returns the holder of the shared Lease while objects are divided into n shards.
// Processes with a different number of shards, or with a single leader, which holds this very
// Lease, wait until it is free.
func layoutOf(n int) string { return fmt.Sprintf("%d-shards", n) }

// holders are the identities that hold the Leases, as one process sees them; "" means none,
// or that the Lease has expired.
type holders struct {
	layout          string
	members, shards []string
}

func (h holders) hasMembers() bool {
	return slices.ContainsFunc(h.members, func(m string) bool { return m != "" })
}

// claims are the Leases that a process should hold.
type claims struct {
	// member is the number of its member Lease, or -1 if none is free: then it is a standby.
	member int
	// take are the shards that it should take or already has; give are those that it has
	// and should give up.
	take, give []int
}

// claims computes what the process with identity me should hold.
func (h holders) claims(me, layout string) claims {
	if h.layout != "" && h.layout != layout {
		return claims{member: -1}
	}
	c := claims{member: slices.Index(h.members, me)}
	if c.member < 0 {
		c.member = slices.Index(h.members, "")
	}
	if c.member < 0 {
		return c
	}
	members := slices.Clone(h.members)
	members[c.member] = me
	members = slices.DeleteFunc(members, func(m string) bool { return m == "" })
	for shard, to := range share(members, h.shards) {
		switch holder := h.shards[shard]; {
		case to == me && (holder == "" || holder == me):
			c.take = append(c.take, shard)
		case to != me && holder == me:
			c.give = append(c.give, shard)
		}
	}
	return c
}

// share returns the member that each shard belongs to. The members' numbers of shards differ by at most one, and each
// member keeps as many of its shards as that allows, lower ones first. There are no more members than shards, so the
// holder of shard 0 keeps it. Processes that see the same Leases compute the same result. A member is named twice while
// it holds the Leases of two members: it took another one before the answer to a write, or etcd was restored to an
// older state. It does not renew the second.
func share(members, shards []string) []string {
	has := make(map[string]int)
	for _, holder := range shards {
		has[holder]++
	}
	members = slices.Compact(slices.SortedFunc(slices.Values(members), func(a, b string) int {
		return cmp.Or(has[b]-has[a], cmp.Compare(a, b)) // those with more shards get the remainder
	}))
	room := make(map[string]int)
	for i, m := range members {
		room[m] = len(shards) / len(members)
		if i < len(shards)%len(members) {
			room[m]++
		}
	}
	to := make([]string, len(shards))
	for shard, holder := range shards {
		if room[holder] > 0 {
			to[shard] = holder
			room[holder]--
		}
	}
	for shard := range to {
		if to[shard] == "" {
			next := slices.IndexFunc(members, func(m string) bool { return room[m] > 0 })
			to[shard] = members[next]
			room[members[next]]--
		}
	}
	return to
}
