package kind

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/place"
)

// Piece is a part of a behaviour, for one object and its children: a compiledPiece or, in proofs, what CUE's
// evaluator says it should be. path is where it is.
type Piece interface {
	// Member returns a whole behaviour again, for a member of an ordered set.
	Member(index int) Piece
	// Field returns the part of a name, which may not exist.
	Field(name string) Piece
	Exists() bool
	IsStruct() bool
	// Data returns the part as plain data, or what it reads that is absent. It is the field of a name,
	// which may be empty, of what is at the path.
	Data(path, name string) (data any, absent []Absence, err error)
	// Guards returns what the ifs and loops at the top of a struct or a list read that is absent.
	Guards(path string) (absent []Absence, err error)
	// Names are those of the fields of a struct, as far as they are known.
	Names() ([]string, error)
	// Elements are those of a list, as far as they are known.
	Elements() []Piece
	// Fits returns why what is observed does not fit what is declared of it.
	Fits(path string) error
	Position() place.Position
}

// decisionReader reads a decision from a behaviour.
type decisionReader struct {
	kind     *Kind
	whole    Piece // the behaviour
	decision Decision
}

// read reads what the behaviour wants of an object in a phase.
func (r *decisionReader) read(v Piece, phase string) error {
	r.whole = v
	if err, ok := errors.AsType[*EvaluationError](v.Field(behaviour.ObservedName).Fits(behaviour.ObservedName)); ok {
		err.Err = fmt.Errorf("%w; the child does not fit the shape that the controller declares: write observed: _",
			err.Err)
		return err
	}
	if err := r.children(v, "", ""); err != nil {
		return err
	}
	if phase != "" {
		value := v.Field("phases").Field(phase)
		if !value.Exists() {
			return &EvaluationError{Path: "object.status.phase", Err: errors.New("the kind has no phase " + phase)}
		}
		path := "phases." + phase + "."
		if err := r.children(value, phase, path); err != nil {
			return err
		}
		if err := r.transitions(value, path+"next"); err != nil {
			return err
		}
	}
	slices.SortStableFunc(r.decision.Children, func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
	if err := r.conditions(v); err != nil {
		return err
	}
	if err := r.deadline(v.Field("deadline")); err != nil {
		return err
	}
	return r.status(v.Field("status"))
}

// status reads the part of the status that reads nothing absent.
func (r *decisionReader) status(value Piece) error {
	if !value.Exists() {
		return nil
	}
	data, absent, err := value.Data("status", "")
	if err != nil {
		return err
	}
	if whole, ok := data.(map[string]any); ok && len(absent) == 0 {
		r.decision.Status = whole
		return nil
	}
	of := r.kind.Structural.Properties["status"]
	r.decision.Status, err = r.present(value, "status", &of)
	return err
}

// deadline reads how long an object may take to become ready.
func (r *decisionReader) deadline(value Piece) error {
	text, err := r.stated(value, "deadline")
	if err != nil || !value.Exists() {
		return err
	}
	if r.decision.Deadline, err = ParseDeadline(text); err != nil {
		return &EvaluationError{Path: "deadline", Err: err, Position: value.Position()}
	}
	return nil
}

// stated reads a text that cannot wait for something absent.
func (r *decisionReader) stated(value Piece, path string) (string, error) {
	if !value.Exists() {
		return "", nil
	}
	data, absent, err := value.Data(path, "")
	if err == nil {
		err = absentError(path, absent)
	}
	text, _ := data.(string)
	return text, err
}

// undecided notes what the ifs and loops within a struct read that is absent: CUE leaves out what
// they guard. One that is wrong is an error.
func (r *decisionReader) undecided(owner Piece, path string) error {
	absent, err := owner.Guards(path)
	r.decision.Undecided = append(r.decision.Undecided, absent...)
	return err
}

// children reads the children of a controller, or of one of its phases.
func (r *decisionReader) children(owner Piece, phase, prefix string) error {
	children := owner.Field("children")
	if err := r.undecided(owner, strings.TrimSuffix(prefix, ".")); err != nil {
		return err
	}
	if err := r.undecided(children, prefix+"children"); err != nil {
		return err
	}
	names, err := children.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		child := Child{Name: name, Phase: phase}
		if err := r.child(&child, children.Field(name), prefix+"children."+name); err != nil {
			return err
		}
		r.decision.Children = append(r.decision.Children, child)
	}
	return nil
}

// child reads one child.
func (r *decisionReader) child(child *Child, value Piece, path string) error {
	for _, read := range []func(*Child, Piece, string) error{r.update, r.onDelete, r.ready, r.set, r.template, r.when} {
		if err := read(child, value, path); err != nil {
			return err
		}
	}
	return nil
}

func (r *decisionReader) update(child *Child, value Piece, path string) error {
	update, err := r.wait(child, value, path, "update")
	text, _ := update.(string)
	child.Update = UpdatePolicy(text)
	return err
}

func (r *decisionReader) onDelete(child *Child, value Piece, path string) error {
	policy, err := r.wait(child, value, path, "onDelete")
	if text, _ := policy.(string); text != string(Delete) {
		child.OnDelete = DeletePolicy(text)
	}
	return err
}

func (r *decisionReader) ready(child *Child, value Piece, path string) (err error) {
	child.Ready, err = r.optionalBool(value.Field("ready"), path, "ready")
	return err
}

// template reads the template; a child that reads something absent has none.
func (r *decisionReader) template(child *Child, value Piece, path string) error {
	if r.kind.Sets[child.Name].Ordered && child.Set != nil {
		return r.members(child, path)
	}
	template, err := r.wait(child, value, path, "template")
	if err == nil && len(child.Absent) == 0 {
		child.Template, _ = template.(map[string]any)
	}
	return err
}

// members reads the templates of an ordered set, of which there is always the first.
func (r *decisionReader) members(child *Child, path string) error {
	for i := range max(child.Set.Replicas, 1) {
		whole := r.whole.Member(i)
		owner := whole
		if child.Phase != "" {
			owner = whole.Field("phases").Field(child.Phase)
		}
		body := owner.Field("children").Field(child.Name)
		data, absent, err := body.Field("template").Data(path, "template")
		if err != nil {
			return err
		}
		template, _ := data.(map[string]any)
		if i == 0 {
			child.Template, child.Absent = template, append(child.Absent, absent...)
		}
		if i < child.Set.Replicas {
			child.Set.Members = append(child.Set.Members, template)
			child.Set.Absent = append(child.Set.Absent, absent...)
		}
	}
	return nil
}

// wait returns a field of a child, and notes what it reads that is absent.
func (r *decisionReader) wait(child *Child, value Piece, path, name string) (any, error) {
	data, absent, err := value.Field(name).Data(path, name)
	child.Absent = append(child.Absent, absent...)
	return data, err
}

// when reads whether a child may be created.
func (r *decisionReader) when(child *Child, value Piece, path string) error {
	if !value.Field("when").Exists() {
		return nil
	}
	holds, err := r.wait(child, value, path, "when")
	child.Delayed = holds != true
	return err
}

// optionalBool reads a condition. It does not hold if it reads something absent; it is nil if
// there is none.
func (r *decisionReader) optionalBool(value Piece, path, name string) (*bool, error) {
	if !value.Exists() {
		return nil, nil
	}
	data, _, err := value.Data(path, name)
	if err != nil {
		return nil, err
	}
	holds := data == true
	return &holds, nil
}

// set reads the fields that make a child a set.
func (r *decisionReader) set(child *Child, value Piece, path string) error {
	if !value.Field("replicas").Exists() {
		return nil
	}
	replicas, err := r.wait(child, value, path, "replicas")
	if err != nil || len(child.Absent) > 0 {
		return err
	}
	maxUnavailable, err := r.wait(child, value, path, "maxUnavailable")
	if err != nil || len(child.Absent) > 0 {
		return err
	}
	share := intstr.FromString(fmt.Sprint(maxUnavailable))
	if n, ok := maxUnavailable.(int64); ok {
		share = intstr.FromInt32(int32(min(n, math.MaxInt32)))
	}
	count, _ := replicas.(int64)
	away, err := intstr.GetScaledValueFromIntOrPercent(&share, int(count), false)
	if err != nil {
		return &EvaluationError{Path: path + ".maxUnavailable", Err: err}
	}
	strays, err := r.wait(child, value, path, "strays")
	if err != nil || len(child.Absent) > 0 {
		return err
	}
	if _, known := r.kind.Sets[child.Name]; !known {
		return &EvaluationError{Path: path + ".replicas",
			Err: errors.New("a set must not be in an if: set replicas to 0 instead")}
	}
	child.Set = &Set{Replicas: int(count), MaxUnavailable: max(away, 1), DeleteStrays: strays == "Delete",
		Ordered: r.kind.Sets[child.Name].Ordered}
	return nil
}

// transitions reads the ways out of a phase, without those that an if drops or that wait for
// something absent.
func (r *decisionReader) transitions(phase Piece, path string) error {
	next := phase.Field("next")
	if _, err := next.Guards(path); err != nil {
		return err
	}
	for i, value := range next.Elements() {
		if err := r.transition(value, path+"."+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *decisionReader) transition(value Piece, path string) error {
	if absent, err := value.Guards(path); err != nil || len(absent) > 0 {
		return err
	}
	to, when := value.Field("to"), value.Field("when")
	states := when.Exists()
	for _, name := range TimeFields {
		states = states || value.Field(name).Exists()
	}
	switch {
	case !to.Exists() && !states:
		return nil // dropped by an if
	case !to.Exists():
		return &EvaluationError{Path: path + ".to", Err: errors.New("is missing"), Position: value.Position()}
	case !states:
		return &EvaluationError{Path: path, Err: errors.New(NeverTaken), Position: value.Position()}
	}
	t := Transition{When: true}
	target, absent, err := to.Data(path, "to")
	if err != nil || len(absent) > 0 {
		return err
	}
	t.To, _ = target.(string)
	if _, known := r.kind.Phases[t.To]; !known {
		return &EvaluationError{Path: path + ".to", Err: fmt.Errorf("%q must be one of the phases", t.To),
			Position: to.Position()}
	}
	if absent, err := r.times(&t, value, path); err != nil || len(absent) > 0 {
		return err
	}
	holds, err := r.optionalBool(when, path, "when")
	if holds != nil {
		t.When = *holds
	}
	r.decision.Next = append(r.decision.Next, t)
	return err
}

// times reads when a transition is taken, or what that reads that is absent.
func (r *decisionReader) times(t *Transition, value Piece, path string) (absent []Absence, err error) {
	texts := make(TimeTexts)
	for _, name := range TimeFields {
		field := value.Field(name)
		if !field.Exists() {
			continue
		}
		data, absent, err := field.Data(path, name)
		if err != nil || len(absent) > 0 {
			return absent, err
		}
		text, _ := data.(string)
		texts[name] = &text
	}
	if field, err := texts.Read(t); err != nil {
		return nil, &EvaluationError{Path: path + "." + field, Err: err, Position: value.Field(field).Position()}
	}
	if t.Cron != nil && !r.kind.RecordsSchedule {
		return nil, &EvaluationError{
			Path:     path + ".cron",
			Err:      errors.New("the status has no lastScheduleTime: embed contract.#ScheduleStatus in it"),
			Position: value.Field("cron").Position(),
		}
	}
	return nil, nil
}

// NeverTaken is what is wrong with a transition that states nothing.
const NeverTaken = "a transition must have when, after or cron"

// conditions reads the kind's own conditions, without those that an if drops or that wait for
// something absent in one.
func (r *decisionReader) conditions(v Piece) error {
	conditions := v.Field("conditions")
	if _, err := conditions.Guards("conditions"); err != nil {
		return err
	}
	names, err := conditions.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		path, value := "conditions."+name, conditions.Field(name)
		if problem := ConditionTypeProblem(name); problem != "" {
			return &EvaluationError{Path: path, Err: errors.New(problem), Position: value.Position()}
		}
		c, err := r.condition(name, value, path)
		if err != nil {
			return err
		}
		r.decision.Conditions = append(r.decision.Conditions, c)
	}
	slices.SortFunc(r.decision.Conditions, func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	return nil
}

func (r *decisionReader) condition(name string, value Piece, path string) (Condition, error) {
	c := Condition{Type: name, Status: metav1.ConditionFalse, Reason: "Not" + name}
	if absent, err := value.Guards(path); err != nil || len(absent) > 0 {
		return unknownCondition(name, absent), err
	}
	holds, absent, err := value.Field("status").Data(path, "status")
	if err != nil || len(absent) > 0 {
		return unknownCondition(name, absent), err
	}
	if holds == true {
		c.Status, c.Reason = metav1.ConditionTrue, name
	}
	for field, target := range map[string]*string{"reason": &c.Reason, "message": &c.Message} {
		text := value.Field(field)
		if !text.Exists() {
			continue
		}
		stated, absent, err := text.Data(path, field)
		if err != nil {
			return c, err
		}
		if stated, ok := stated.(string); ok && len(absent) == 0 {
			*target = stated
		}
	}
	return c, nil
}

// unknownCondition returns a condition that waits for something absent.
func unknownCondition(name string, absent []Absence) Condition {
	return Condition{Type: name, Status: metav1.ConditionUnknown, Reason: ReasonWaiting, Message: WaitingFor(absent)}
}

// present returns the part of a struct that reads nothing absent. A struct within it is left out if nothing of it is
// known, or the schema requires a field that is left out.
func (r *decisionReader) present(
	value Piece, path string, parent *structuralschema.Structural,
) (map[string]any, error) {
	present := make(map[string]any)
	names, err := value.Names()
	for _, name := range names {
		field, path := value.Field(name), path+"."+name
		data, absent, err := field.Data(path, "")
		if err != nil {
			return nil, err
		}
		switch {
		case len(absent) == 0:
			present[name] = data
		case field.IsStruct():
			of, isNamed := parent.Properties[name]
			if extra := parent.AdditionalProperties; !isNamed && extra != nil && extra.Structural != nil {
				of = *extra.Structural
			}
			below, err := r.present(field, path, &of)
			if err != nil {
				return nil, err
			}
			if len(below) > 0 && hasRequired(below, &of) {
				present[name] = below
			}
		}
	}
	return present, err
}

// hasRequired reports whether an object has the fields that a schema requires.
func hasRequired(object map[string]any, of *structuralschema.Structural) bool {
	return of.ValueValidation == nil || !slices.ContainsFunc(of.ValueValidation.Required, func(name string) bool {
		_, ok := object[name]
		return !ok
	})
}
