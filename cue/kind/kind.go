package kind

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/internal/parts"
)

// Kind is a kind of Kubernetes object and its controller. Except for its Counts, it never
// changes once loaded, and may be used by many goroutines at once.
type Kind struct {
	// Version is the one that the API server stores and the controller works with.
	*Version
	// Versions are all versions, the stored one first.
	Versions Versions
	// Names are the kind's names in the API; ListKind is <Kind>List.
	Names apiextensionsv1.CustomResourceDefinitionNames
	// Scope is whether objects of the kind are namespaced.
	Scope apiextensionsv1.ResourceScope
	// Approval is the value of the CRD's annotation api-approved.kubernetes.io; it is empty if
	// the kind has none.
	Approval string
	// Columns are what kubectl prints after the name.
	Columns []apiextensionsv1.CustomResourceColumnDefinition
	// Scale locates the numbers for kubectl scale; nil means that the kind has no scale
	// subresource.
	Scale *apiextensionsv1.CustomResourceSubresourceScale
	// SelectableFields are those that a field selector may name.
	SelectableFields []apiextensionsv1.SelectableField
	// Initial is the phase of an object that has none; it is empty if the kind has no phases, or
	// only those that follow OnDelete.
	Initial string
	// OnDelete is the phase that an object enters when it is deleted; it is empty if there is none.
	OnDelete string
	// Phases are the states of the kind by name.
	Phases map[string]PhaseFacts
	// Owns are the types of the children, each once, in a fixed order.
	Owns []apischema.GroupVersionKind
	// OwnsOfCluster are those of Owns that are known to have no namespaces.
	OwnsOfCluster []apischema.GroupVersionKind
	// Sets are the children that are sets, by name.
	Sets map[string]SetFacts
	// Lookups are the objects that the behaviour reads apart from its children.
	Lookups Lookups
	// Uses are the children that the template of a child, or its when, reads, by the name of that child, and
	// object.status if it reads that. It is known of kinds of folders, and not of those that Fescue ships, which read
	// nothing sensitive.
	Uses map[string][]string
	// Hash identifies the source of the package that the kind is in. Two processes whose kinds
	// have different hashes may behave differently.
	Hash string
	// StatusFields are where the behaviour writes fields of the status.
	StatusFields map[string]place.Position
	// RecordsSchedule means that the kind has transitions with cron, so that LastScheduleTime is the engine's.
	RecordsSchedule bool
	// Folder is where the kind was loaded from; it is empty for a shipped one.
	Folder string
	// Target is what the kind adds children to, if it is a decorator; nil for any other kind. The
	// objects of a decorator are of a type of others, whose schema, names and status are not its own.
	Target *Target
	// InjectAnnotation is the annotation by which Pods ask for injection; it is empty if the
	// kind does not inject.
	InjectAnnotation string

	// Elsewhere are those of Owns of which an object that has a namespace may have children in others, or at the
	// cluster scope. The garbage collector does not delete these: a finalizer keeps the object until they are gone.
	Elsewhere []apischema.GroupVersionKind
	// Grants are the rights to give rights away that the children need, each once.
	Grants []Grant
	// Placed are those of Owns whose namespaces follow from what the author of an object submits.
	Placed []apischema.GroupVersionKind
	// IsSelfService means that the author of an object needs no rights to its children. These may be in its namespace,
	// at the cluster scope, and in namespaces that are children themselves.
	IsSelfService bool
	// Behaviour describes the behaviour to people.
	Behaviour *BehaviourFacts
	// Corrected are the types whose children are compared with their templates.
	Corrected Corrected
	// Advice is advice on the behaviour.
	Advice []Advice
	// Reads are what the behaviour can read.
	Reads *Reads
	// Program is the compiled behaviour.
	Program *behaviour.Program

	asked *counters
}

// New returns a kind of which nothing is known.
func New() *Kind { return &Kind{Version: &Version{}, asked: new(counters)} }

// Versions are all versions of a kind, the stored one first: how its objects are converted between them.
type Versions []*Version

// Stored returns the version that the API server stores.
func (vs Versions) Stored() *Version { return vs[0] }

// Version describes the objects of a kind in one version of its API.
type Version struct {
	// GroupVersionKind is how manifests name it.
	GroupVersionKind apischema.GroupVersionKind
	// Schema is the structural OpenAPI schema.
	Schema *apiextensionsv1.JSONSchemaProps
	// Served is whether the API server accepts requests in the version.
	Served bool
	// Deprecated has the API server warn of requests in the version, with DeprecationWarning or, if
	// that is empty, a text of its own.
	Deprecated         bool
	DeprecationWarning string

	// DefinitionName is the name of its definition without #; it is empty for what a decorator is for.
	DefinitionName string
	// Compiled is the compiled schema.
	Compiled *schema.Schema
	// Structural is Schema, as the API server prunes by it.
	Structural *structuralschema.Structural
	// Status is what became of the status for that.
	Status *schema.Completed
	// Enforcers are who enforces the rules of the schema.
	Enforcers schema.Enforcers
	// Conversion is nil for the stored version, and for one that states nothing.
	Conversion *Conversion
	// HasDeprecated means that fields are deprecated.
	HasDeprecated bool
	// InitialStatus means that the CRD gives new objects a status.
	InitialStatus bool
}

// Conversion is how a version differs from the stored one. A nil one states nothing: all fields that
// both have are the same.
type Conversion struct {
	// Name is that of its definition.
	Name    string
	Program *behaviour.Program
	// Stated are the fields that it states, by direction.
	Stated map[string]*Stated
	// Reads are what it reads of the object.
	Reads *parts.Set
	At    place.Position
}

// Stated are the fields below a field that a conversion states, also within an if. Whole means that
// it states the value as such. A nil one is a field that it does not state.
type Stated struct {
	Whole  bool
	Fields map[string]*Stated
	At     place.Position // of a direction
}

// WithDefaults sets the defaults of an object, which need not be valid.
func (v *Version) WithDefaults(b *Budget, object map[string]any) map[string]any {
	return schema.Default(b, v.Compiled, v.WithoutNulls(object))
}

// PhaseFacts are the facts about a phase that depend on no object.
type PhaseFacts struct {
	// Terminal means that nothing more is done for an object in this phase.
	Terminal bool
	// Failed means that an object that ends in this phase has failed.
	Failed bool
	// Lives reports that the phase follows Initial, so that an object may be in it without being
	// deleted.
	Lives bool
}

// Ends reports whether objects of the kind can reach a phase that is terminal without being deleted.
func (k *Kind) Ends() bool {
	for _, facts := range k.Phases {
		if facts.Terminal && facts.Lives {
			return true
		}
	}
	return false
}

// SetFacts are the facts about a set that depend on no object.
type SetFacts struct {
	// Type is the type of its members.
	Type apischema.GroupVersionKind
	// StrayLabels are the names of the labels that the template gives all members, sorted.
	// It is empty if strays are ignored.
	StrayLabels []string
	// Ordered means that the members are numbered, and each has a template of its own.
	Ordered bool
}

// GroupVersionResource returns where the API server serves objects of the kind.
func (k *Kind) GroupVersionResource() apischema.GroupVersionResource {
	return k.GroupVersionKind.GroupVersion().WithResource(k.Names.Plural)
}

// Name returns plural.group, which no two kinds of a cluster share. It names the kind's CRD, and
// the kind in metrics and as the owner of fields. A decorator has the name of its definition, which
// has no dot and so is that of no kind.
func (k *Kind) Name() string {
	if k.Target != nil {
		return k.Target.Decorator
	}
	return k.GroupVersionResource().GroupResource().String()
}

// Problem is one error of an object, and the rule in CUE that it breaks.
type Problem = schema.Problem

// Validate lists all errors of an object, sorted by field. The object
// is not changed. Limits are checked before anything else, and exceeding one is then
// the only error reported.
func (k *Kind) Validate(object map[string]any) field.ErrorList {
	return errorList(k.Problems(object))
}

// Problems is Validate with the rules that the object breaks.
func (k *Kind) Problems(object map[string]any) []Problem {
	_, problems := k.Versions.of(object).DefaultAndValidate(k.NewBudget(), object)
	return problems
}

// Checked is an object with its defaults, or with its errors.
type Checked struct {
	// Object has the defaults if it is valid, and is as it was given otherwise.
	Object map[string]any
	// Errors lists all errors of the object, sorted by field.
	Errors field.ErrorList

	kind    *Kind
	version *Version
	budget  *Budget
}

// Check sets the defaults of an object and validates it; null is dropped where the API server
// drops it. The object is not changed.
func (k *Kind) Check(b *Budget, object map[string]any) *Checked {
	v := k.Versions.of(object)
	defaulted, problems := v.DefaultAndValidate(b, object)
	if len(problems) > 0 {
		defaulted = object
	}
	return &Checked{Object: defaulted, Errors: errorList(problems), kind: k, version: v, budget: b}
}

// DefaultAndValidate returns an object with its defaults, and its problems.
func (v *Version) DefaultAndValidate(b *Budget, object map[string]any) (map[string]any, []Problem) {
	if err := CheckLimits(object); err != nil {
		return object, []Problem{{Error: err}}
	}
	defaulted := v.WithDefaults(b, object)
	problems := schema.Validate(b, v.Compiled, defaulted)
	sortProblems(problems)
	return defaulted, problems
}

// Stored checks the object without the part of its status that the kind projects, if that part
// is invalid: another version of the kind has projected it, and the engine is about to replace it.
func (c *Checked) Stored() *Checked {
	ofStatus := func(err *field.Error) bool { return strings.HasPrefix(err.Field, "status.") }
	status, _ := c.Object["status"].(map[string]any)
	if len(c.Errors) == 0 || status == nil || !slices.ContainsFunc(c.Errors, ofStatus) {
		return c
	}
	engines := make(map[string]any)
	for _, name := range EngineStatus {
		if value, ok := status[name]; ok {
			engines[name] = value
		}
	}
	object := maps.Clone(c.Object)
	object["status"] = engines
	return c.kind.Check(c.budget, object)
}

// of returns the version of an object's apiVersion. If there is none, the stored
// version is returned, whose schema reports the apiVersion as wrong.
func (vs Versions) of(object map[string]any) *Version {
	for _, v := range vs {
		if object["apiVersion"] == v.GroupVersionKind.GroupVersion().String() {
			return v
		}
	}
	return vs.Stored()
}

// ValidateUpdate lists the errors of an object that is to replace old, and the immutable fields that differ. Objects
// that exceed the limits, or their budgets, are not compared.
func (c *Checked) ValidateUpdate(old *Checked) field.ErrorList {
	v := c.version
	if c.budget.IsExceeded() || old.budget.IsExceeded() || CheckLimits(c.Object) != nil ||
		CheckLimits(old.Object) != nil {
		return c.Errors
	}
	// The defaults are set here as well because an invalid object has none yet.
	withDefaults := func(object map[string]any) map[string]any { return schema.Default(c.budget, v.Compiled, object) }
	problems := schema.ValidateUpdate(c.budget, v.Compiled, withDefaults(old.Object), withDefaults(c.Object))
	sortProblems(problems)
	return append(slices.Clip(c.Errors), errorList(problems)...)
}

// Deprecated lists the fields of a valid object that are deprecated, each with what to use
// instead, as in "spec.cron: deprecated: use spec.schedule", and the annotations that are ignored.
func (vs Versions) Deprecated(b *Budget, object map[string]any) []string {
	v, found := vs.of(object), ignoredAnnotations(object)
	if !v.HasDeprecated || CheckLimits(object) != nil {
		return found
	}
	return append(found, schema.Deprecated(b, v.Compiled, object)...)
}

// ignoredAnnotations lists the annotations in which conversions kept what a version could not hold.
func ignoredAnnotations(object map[string]any) (found []string) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, "conversion.fescue.dev/") {
			found = append(found,
				fmt.Sprintf("metadata.annotations[%s]: is ignored: conversions keep nothing in annotations; remove it",
					name))
		}
	}
	return found
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(string(a.Type), string(b.Type)),
			strings.Compare(a.Detail, b.Detail))
	})
}

func errorList(problems []Problem) field.ErrorList {
	var list field.ErrorList
	for _, p := range problems {
		list = append(list, p.Error)
	}
	return list
}

// Default returns a valid object in which every absent field that has a default is set to it.
// The object is not changed; the result shares unchanged parts with it.
func (k *Kind) Default(object map[string]any) map[string]any {
	return k.Versions.of(object).WithDefaults(k.NewBudget(), object)
}

// Sampler returns a generator of objects of the version: often a valid one, often one at the edge of
// what is valid, and sometimes one beyond it.
func (v *Version) Sampler() func(random *rand.Rand) map[string]any {
	sampler := schema.NewSampler(v.Compiled)
	return func(random *rand.Rand) map[string]any {
		object := sampler.Sample(random)
		object["apiVersion"], object["kind"] = v.GroupVersionKind.ToAPIVersionAndKind()
		return object
	}
}

// Enforcement lists the rules of the version's schema and who enforces them, in the order of
// the fields.
func (v *Version) Enforcement() []schema.Enforcement {
	return schema.Enforcements(v.Compiled, v.Enforcers)
}

// RejectedBy returns who rejects an object for a problem that Problems found.
func (vs Versions) RejectedBy(p Problem) schema.Enforcer {
	by := schema.Admission
	for _, v := range vs { // a rule is of one version
		by = max(by, v.Enforcers.Rejecting(p))
	}
	return by
}

// Decide returns what the kind wants for a valid, defaulted object in the phase
// object.status.phase. observed holds its children by the names that the kind gives them. What
// reads something absent, in observed or of the object's optional fields, waits or does not hold;
// any other failure is an *EvaluationError.
func (k *Kind) Decide(b *Budget, object, observed map[string]any) (*Decision, error) {
	decision, err := k.DecisionOf(k.Run(b, object, observed), k.PhaseOf(object))
	err = exceeded(b, err)
	k.asked.decided(err)
	return decision, err
}

// DecisionOf reads what a behaviour wants of an object in a phase.
func (k *Kind) DecisionOf(v Piece, phase string) (*Decision, error) {
	r := &decisionReader{kind: k}
	if err := r.read(v, phase); err != nil {
		return nil, err
	}
	return &r.decision, r.checkStatus()
}

// Run returns the behaviour for an object and its children; nil leaves them out.
func (k *Kind) Run(b *Budget, object, observed map[string]any) Piece {
	return compiledPiece{k.Program.Run(b, k.Status.WithoutAdded(object), observed)}
}

// PhaseOf reads the phase of an object; one that has none yet is in phase "", and so is every object of
// a decorator, whatever its status.
func (k *Kind) PhaseOf(object map[string]any) string {
	if k.Target != nil {
		return ""
	}
	return PhaseOf(object)
}

// PhaseOf reads the phase of an object of a kind with a status of its own.
func PhaseOf(object map[string]any) string {
	status, _ := object["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	return phase
}
