package reference

import (
	"fmt"
	"go/ast"
	"go/constant"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

// docs/reference/conditions.md has each type of condition, and each reason of a condition, an Event and an injection.
func TestConditions(t *testing.T) {
	t.Parallel()
	folders := product(t)
	rows, headings := page(t, "conditions.md")
	var types, skips []string
	reasons := headings
	for _, r := range rows {
		switch name := code(r.cells[0]); {
		case r.section == "Types":
			types = append(types, name)
		case r.section == "Why a Pod did not get an object":
			skips = append(skips, name)
		case name != "":
			reasons = append(reasons, name)
		}
	}
	for _, name := range types {
		require.True(t, kind.IsEngineCondition(name), name)
	}
	var constants []string
	for name := range folders["cue/kind"].values {
		if strings.HasPrefix(name, "Condition") {
			constants = append(constants, folders["cue/kind"].text(name))
		}
	}
	require.ElementsMatch(t, constants, types)
	var injected []string
	for _, reason := range inject.SkipReasons {
		injected = append(injected, string(reason))
	}
	require.ElementsMatch(t, injected, skips)
	slices.Sort(reasons)
	require.Equal(t, slices.Sorted(maps.Keys(reasonsIn(folders, engine...))), slices.Compact(reasons))
}

// Each reason of a condition or an Event, and of `fescue status`, has exactly one entry in docs/operate/troubleshooting.md, and
// so has each reason why a Pod does not get what it asks for.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	rows, headings := page(t, "../operate/troubleshooting.md")
	found := reasonsIn(product(t), append(slices.Clip(engine), "internal/cli")...)
	reasons := slices.Sorted(maps.Keys(found))
	require.Subset(t, reasons, []string{"ChildRejected", "Waiting", "Deleting", "NotStarted", "Reconciled", "ForeignObject", "MissedSchedule", "FieldsDropped", "Unreadable"})
	entries := slices.DeleteFunc(headings, func(heading string) bool { return !isReason.MatchString(heading) })
	require.Equal(t, reasons, slices.Sorted(slices.Values(entries)))
	var skips, expected []string
	for _, r := range rows {
		if name := code(r.cells[0]); r.section == "A Pod has no sidecar" && isReason.MatchString(name) {
			skips = append(skips, name)
		}
	}
	for _, reason := range inject.SkipReasons {
		expected = append(expected, string(reason))
	}
	require.Contains(t, expected, "PodSecurity")
	require.ElementsMatch(t, expected, skips)
}

// engine are the packages that write conditions and Events.
var engine = []string{"cue/kind", "engine", "engine/children", "engine/plan", "internal/operator"}

var isReason = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// reasonsIn returns the reasons that some packages write into conditions and Events, or show.
func reasonsIn(folders map[string]*folder, paths ...string) map[string]bool {
	found := make(map[string]bool)
	note := func(text string) {
		if isReason.MatchString(text) {
			found[text] = true
		}
	}
	for _, path := range paths {
		add := func(e ast.Expr) {
			ast.Inspect(e, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BinaryExpr: // a reason that is composed
					return false
				case *ast.BasicLit:
					note(literal(n))
				case *ast.Ident:
					note(folders[path].text(n.Name))
					note(folders["cue/kind"].text(n.Name))
				}
				return true
			})
		}
		for _, file := range folders[path].files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					addReason(n, add)
				case *ast.AssignStmt:
					for i, left := range n.Lhs {
						if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Reason" && len(n.Rhs) == len(n.Lhs) {
							add(n.Rhs[i])
						}
					}
				case *ast.CallExpr:
					switch called := n.Fun.(type) {
					case *ast.Ident:
						if called.Name == "newEvent" {
							add(n.Args[1])
						}
					case *ast.SelectorExpr:
						if called.Sel.Name == "Eventf" {
							add(n.Args[3])
						}
					}
				}
				return true
			})
		}
	}
	return found
}

// addReason adds the reason of a condition or a problem.
func addReason(lit *ast.CompositeLit, add func(ast.Expr)) {
	name := ""
	switch t := lit.Type.(type) {
	case *ast.Ident:
		name = t.Name
	case *ast.SelectorExpr:
		name = t.Sel.Name
	}
	if name != "Condition" && name != "Problem" {
		return
	}
	for i, element := range lit.Elts {
		pair, isPair := element.(*ast.KeyValueExpr)
		switch {
		case isPair && pair.Key.(*ast.Ident).Name == "Reason":
			add(pair.Value)
		case !isPair && i == 0:
			add(element)
		}
	}
}

// ownNames are names under fescue.dev, or those that only Fescue writes. What is in front of one must not be a part of it.
var ownNames = regexp.MustCompile(`(?:^|[^.\w/])((?:(?:conversion|decorator)\.)?fescue\.dev/[a-z-]*|app\.kubernetes\.io/managed-by)`)

// docs/reference/labels.md has each label, annotation, finalizer, field manager and Lease.
func TestLabels(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, f := range product(t) {
		for name := range f.values {
			if text := f.text(name); strings.HasSuffix(strings.ToLower(name), "manager") && strings.HasPrefix(text, "fescue") {
				names[text] = true
			}
		}
		for _, file := range f.files {
			ast.Inspect(file, func(n ast.Node) bool {
				for _, found := range ownNames.FindAllStringSubmatch(literal(n), -1) {
					names[found[1]] = true
				}
				return true
			})
		}
	}
	for _, other := range []string{"fescue.dev/", "fescue.dev/cue"} { // a prefix, and that of packages
		delete(names, other)
	}
	names["fescue/"] = true // plan.FieldManager
	for _, lease := range []string{install.LeaseName, install.ShardLease(0), install.MemberLease(0)} {
		names[strings.TrimSuffix(lease, "0")] = true
	}
	names["metrics"] = true // Kubernetes' own tools have it
	rows, _ := page(t, "labels.md")
	var listed []string
	for _, r := range rows {
		if name := code(r.cells[0]); name != "" {
			listed = append(listed, name)
		}
	}
	slices.Sort(listed)
	require.Equal(t, slices.Sorted(maps.Keys(names)), listed)
}

// unlisted are bounds that nobody meets: of what is shown, of loops that end before, and of what tests and types have as well.
var unlisted = []string{
	"admission.maxCorrectionDelay", "admission.maxKeptBytes", "admission.maxRights", "admission.maxTimeout",
	"cue/kind.maxShown", "cue/kind.maxUnbounded", "cue/kind/behaviour.maxInt", "cue/kind/check.maxListed", "cue/kind/types.maxCronJobName",
	"cue/kind/infer.maxDepth", "cue/kind/infer.maxElements", "cue/kind/infer.maxSteps",
	"cue/kind/proof.maxInvalid", "cue/kind/proof.maxPartDepth", "cue/kind/proof.maxShrinks",
	"cue/kind/schema.maxRounds", "cue/kind/schema.maxSampleDepth", "cue/kind/schema.maxSampleItems", "cue/kind/schema.maxSampleLength",
	"cue/kind/schema.maxTries", "cue/kind/schema.maxVariants",
	"engine/children.maxName", "engine/children.maxSuffix", "engine/inject.maxName", "cue/kind/podrules.maxGMSACredentialSpec", "cue/kind/podrules.maxLength",
	"cue/kind/podrules.maxWindowsDomain", "cue/kind/podrules.maxWindowsUser",
	"engine/plan.maxObservations", "engine/plan.maxRounds", "engine/reconcile.maxLooks",
	"internal/cli.maxAnswer", "internal/cli.maxRule", "internal/jsontext.maxDepth", "internal/jsontext.maxKeptTokens",
	"internal/operator.maxConversionDelay", "internal/operator/serving.maxCached", "internal/projection.maxBuffer", "internal/quiet.maxProblems",
}

// docs/reference/limits.md has the numbers of the constants that it names, and names each maximum.
func TestLimits(t *testing.T) {
	t.Parallel()
	folders := product(t)
	named := make(map[string]bool)
	rows, _ := page(t, "limits.md")
	for _, r := range rows {
		require.Len(t, r.cells, 4, r.cells[0])
		source := code(r.cells[3])
		if source == "" {
			continue // of Kubernetes
		}
		named[source] = true
		path, name, _ := strings.Cut(source, ".")
		require.Contains(t, folders, path, r.cells[0])
		shown := shownAs(t, folders[path], name)
		require.True(t, slices.ContainsFunc(shown, func(text string) bool {
			return r.cells[1] == text || strings.HasPrefix(r.cells[1], text+" ")
		}), "%s: the page has %s, and %s is %v", r.cells[0], r.cells[1], source, shown)
	}
	maximum := regexp.MustCompile(`^[mM]ax[A-Z]`)
	for path, f := range folders {
		for name := range f.values {
			if source := path + "." + name; maximum.MatchString(name) && !named[source] {
				require.Contains(t, unlisted, source, "docs/reference/limits.md does not have it")
			}
		}
	}
}

// shownAs returns how the number of a constant may be written.
func shownAs(t *testing.T, f *folder, name string) []string {
	t.Helper()
	value := f.constant(t, name)
	n, isExact := constant.Int64Val(constant.ToInt(value.Value))
	require.True(t, isExact, name)
	if strings.HasSuffix(value.Type.String(), "Duration") {
		for _, unit := range []struct {
			of   time.Duration
			name string
		}{{24 * time.Hour, "days"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
			if n%int64(unit.of) == 0 {
				return []string{fmt.Sprintf("%d %s", n/int64(unit.of), unit.name)}
			}
		}
	}
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	shown := []string{digits}
	for unit, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if n%bytes == 0 {
			shown = append(shown, fmt.Sprintf("%d %s", n/bytes, unit))
		}
	}
	return shown
}
