package main

import (
	"cmp"
	"fmt"
	"slices"
)

// layoutOf is what the Lease that all members share says while objects are divided into n
// shards. Processes that divide otherwise, or whose one leader holds this Lease, wait
// until it is free.
func layoutOf(n int) string { return fmt.Sprintf("%d-shards", n) }

// holders are those of the Leases, as one process sees them; "" is nobody, or one whose
// time has run out.
type holders struct {
	layout          string
	members, shards []string
}

func (h holders) hasMembers() bool {
	return slices.ContainsFunc(h.members, func(m string) bool { return m != "" })
}

// claims are the Leases that a process is to hold.
type claims struct {
	// member is the one that makes it a member, or -1 if none is free for it: then it
	// stands by.
	member int
	// take are the shards that it is to take, or has already; give those that it has and
	// is to give up.
	take, give []int
}

// claims works out what a process should hold that divides objects in a way.
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

// share says which member each shard belongs to: as many to each, give or take one, and
// each keeps what it has as far as that goes, the first ones first. As there are no more
// members than shards, who has shard 0 keeps it. Whoever sees the same comes to the same.
func share(members, shards []string) []string {
	has := make(map[string]int)
	for _, holder := range shards {
		has[holder]++
	}
	members = slices.SortedFunc(slices.Values(members), func(a, b string) int {
		return cmp.Or(has[b]-has[a], cmp.Compare(a, b)) // who has more has the odd ones
	})
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
