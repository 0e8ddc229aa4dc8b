package history

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bug is a mistake that someone could make: the text of a file that is replaced.
type bug struct{ name, file, is, becomes string }

// bugs are made by hand, one for each promise that the engine keeps by a precondition, an order of writes, a memory or
// an event.
var bugs = []bug{
	{"an apply has no precondition", "apply.go", "wanted.SetResourceVersion(version)", "_ = version"},
	{"an apply may be to another object of the name", "apply.go", "	wanted.SetUID(s.Live.GetUID())",
		"	_ = s.Live"},
	{"a deletion has no preconditions", "apply.go",
		"			Preconditions:     &metav1.Preconditions{UID: new(s.Live.GetUID()), ResourceVersion: &version},\n",
		""},
	{"a deletion has no version", "apply.go", "{UID: new(s.Live.GetUID()), ResourceVersion: &version}",
		"{UID: new(s.Live.GetUID())}"},
	{"an adoption has no precondition", "apply.go",
		`"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(),`, ""},
	{"an adoption does not ask for the owner", "apply.go",
		"	if err := a.stillOwns(); err != nil {\n		return err\n	}\n	live, references",
		"	live, references"},
	{"a deletion of what lost its reference does not ask for the owner", "apply.go",
		"	if children.CanOwn(a.owner, s.Live) && !metav1.IsControlledBy(s.Live, a.owner) {", "	if false {"},
	{"a conflict is tried again for a child that is no longer the object's", "apply.go",
		"children.IsOwnedBy(after, a.owner) &&\n		metav1.IsControlledBy(before, a.owner) == metav1.IsControlledBy(after, a.owner) &&\n", "\n"},
	{"an object of the name of a child is the child", "plan/meet.go",
		"	isOwn := children.BelongsTo(live, owner, k) && (holder == nil || holder.UID == owner.GetUID()) && !isCopy",
		"	isOwn := children.BelongsTo(live, owner, k) || !isCopy || isCopy"},
	{"a child that is created once and is being deleted counts as absent", "plan/meet.go",
		"	case isOwn && isLeaving && s.Once:", "	case false:"},
	{"a child elsewhere is created by an outdated cache", "apply.go",
		"	if err := a.mayCreate(s); err != nil {\n		return err\n	}\n", ""},
	{"what was created is not remembered", "apply.go",
		"	a.records.rememberChild(a.name, a.owner.GetUID(), s.Resource, stored)\n", ""},
	{"what was deleted is not remembered", "apply.go",
		"	a.records.rememberDelete(a.name, a.owner.GetUID(), s.Resource, s.Live, err == nil || isAnswer)\n", ""},
	{"an own status that the cache has not is ignored", "controller.go",
		"c.records.newest(r.name, func() *unstructured.Unstructured { return c.objects.Get(r.name) })",
		"func() *unstructured.Unstructured { return c.objects.Get(r.name) }()"},
	{"the caches are not awaited", "observe.go", "	seen, since := r.records.seen(r.name, r.types)\n	isStale",
		"	seen, since := true, time.Now()\n	isStale"},
	{"an event that never comes is missed", "writes.go", "isMissed := !wasSeen && len(known.answered) > 0",
		"isMissed := false && wasSeen"},
	{"a timer is lost", "plan/next.go", "	return Earlier(o.WakeAt, o.RecordAt(p, stored))",
		"	return o.RecordAt(p, stored)"},
	{"a child that was created once is recorded with the next write only", "plan/next.go",
		"	return Earlier(o.WakeAt, o.RecordAt(p, stored))", "	return o.WakeAt"},
	{"a failure is not tried again", "controller.go", "		c.queue.AddAfter(name, wait)\n", ""},
	{"a conflict is not tried again", "controller.go", "		c.queue.AddRateLimited(name)\n", ""},
	{"the deletion of a child queues nobody", "intake.go", "		c := eventOf(i.kind, e)\n",
		"		c := eventOf(i.kind, e)\n		if e.after == nil {\n			return\n		}\n"},
	{"a child that has lost its owner queues nobody", "intake.go", "children.OwnerPrefix(k)); found {",
		"children.OwnerPrefix(k)); found && false {"},
	{"a Pod that changes queues nobody", "intake.go", "			if okA && okB && !sameUptake(a, b) {",
		"			if okA && okB && false {"},
	{"a changed spec queues nobody", "intake.go", "	return a.GetGeneration() != b.GetGeneration() ||\n",
		"	return "},
	{"an object is reconciled without its Lease", "shards.go",
		"	if !part.mine {\n		return nil, false\n	}\n	part.running.Add(1)", "	part.running.Add(1)"},
	{"all shards act on an object", "shards.go", "return s.shards.of(object) == s.shard }",
		"return s.shards.of(object) >= 0 }"},
	{"an object that was made again is taken for the former", "records.go", "if known != nil && known.uid == uid {",
		"if known != nil {"},
	{"an object has no finalizer", "reconcile/reconcile.go",
		"	if plan.NeedsFinalizer(r.Kind, r.object, v, r.Now()) {",
		"	if plan.NeedsFinalizer(r.Kind, r.object, v, r.Now()) && false {"},
	{"an object is let go too early", "reconcile/reconcile.go", "		next = o.Next(object != p.Object)\n",
		"		if next = o.Next(object != p.Object); object.GetDeletionTimestamp() != nil {\n			next = plan.Release\n		}\n"},
	{"the numbers of members are forgotten", "plan/memory.go", "	for set, highest := range c.Numbers {",
		"	for set, highest := range c.Numbers {\n		break"},
	{"what is remembered is not read again after a conflict", "reconcile.go",
		"	if apierrors.IsConflict(result.Err) && r.records.hasObject(r.name) {",
		"	if apierrors.IsConflict(result.Err) && false {"},
	{"children are created before their phase is stored", "plan/plan.go", "	case !isStored && (!holds || !isIdle):",
		"	case false:"},
	{"a phase is left before its children exist", "plan/plan.go",
		"		isComplete := !next.since.IsZero() || p.isComplete(decision, seen, v)", "		isComplete := true"},
	{"the children of an object are deleted that is being orphaned", "plan/leaving.go",
		"	return object.GetDeletionTimestamp() != nil &&\n		slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents)", "	return false && slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents)"},
	{"what was created once is not noted", "plan/once.go", "			p.known[child.Name] = live.GetUID()\n", ""},
	{"a child of a former entry is kept", "plan/once.go", "	return children.IsReplaced(child) && p.created",
		"	return false && children.IsReplaced(child) && p.created"},
	{"a child that was created once is created again", "plan/compare.go",
		`	case !children.IsOnce(child.Child) || uid == "":`, "	case true:"},
	{"unwanted children stay", "plan/compare.go", "		case c.plan.isPrunable(e):", "		case false:"},
	{"copies are deleted", "plan/compare.go",
		"		case !e.IsOriginal():\n			c.Foreign = append(c.Foreign, e)\n", ""},
	{"all members of a set are replaced at once", "plan/set.go",
		"			if budget <= 0 {\n				continue\n			}\n", ""},
	{"all members of an ordered set are created at once", "plan/ordered.go",
		"	case !r.blocked:\n		r.blocked = true\n", "	case true:\n"},
	{"a set counts members that are being deleted", "plan/set.go",
		"		if e.Object.GetDeletionTimestamp() != nil {\n			continue\n		}\n", ""},
}

// Each bug can be put into the engine as it is now.
func TestBugTexts(t *testing.T) {
	t.Parallel()
	for _, b := range bugs {
		source, err := os.ReadFile("../../../engine/" + b.file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(source), b.is), "%s: %s is there once", b.name, b.is)
		require.NotEqual(t, b.is, b.becomes)
	}
}
