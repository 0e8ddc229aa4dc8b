package kind

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// decisionReader reads a decision from a behaviour that is unified with what it gets.
type decisionReader struct {
	*cueEvaluator
	standIns *standIns
	decision Decision
}

// read reads what the behaviour wants of an object in a phase.
func (r *decisionReader) read(v cue.Value, phase string) error {
	if err := v.LookupPath(pathObserved).Validate(); err != nil {
		err := evaluationError(observedName, err).(*EvaluationError)
		err.Err = fmt.Errorf("%w; a child must fit the shape that the controller declares under observed: write observed: _", err.Err)
		return err
	}
	if err := r.children(v, "", ""); err != nil {
		return err
	}
	if phase != "" {
		value := v.LookupPath(cue.MakePath(cue.Str("phases"), cue.Str(phase)))
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
	var err error
	if r.decision.Deadline, err = deadlineOf(v); err != nil {
		return evaluationError("deadline", err)
	}
	status, err := r.present(v.LookupPath(pathStatus), "status")
	r.decision.Status = r.standIns.restore(status)
	return err
}

// undecided notes what the ifs and loops within a struct read that is absent: CUE leaves out what
// they guard. One that is wrong is an error.
func (r *decisionReader) undecided(owner cue.Value, path string) error {
	absent, err := r.expressions.guards(owner, path)
	r.decision.Undecided = append(r.decision.Undecided, absent...)
	return err
}

// children reads the children of a controller, or of one of its phases.
func (r *decisionReader) children(owner cue.Value, phase, prefix string) error {
	children := owner.LookupPath(pathChildren)
	if err := r.undecided(owner, strings.TrimSuffix(prefix, ".")); err != nil {
		return err
	}
	if err := r.undecided(children, prefix+"children"); err != nil {
		return err
	}
	return eachField(children, func(name string, value cue.Value) error {
		child := Child{Name: r.standIns.text(name), Phase: phase}
		err := r.child(&child, value, prefix+"children."+child.Name)
		r.decision.Children = append(r.decision.Children, child)
		return err
	})
}

// child reads one child.
func (r *decisionReader) child(child *Child, value cue.Value, path string) error {
	update, err := value.LookupPath(pathUpdate).String()
	if err != nil {
		return r.wait(child, value.LookupPath(pathUpdate), path+".update", err)
	}
	child.Update = UpdatePolicy(update)
	if child.Ready, err = r.optionalBool(value.LookupPath(pathReady), path+".ready"); err != nil {
		return err
	}
	if err := r.set(child, value, path); err != nil {
		return err
	}
	template := value.LookupPath(pathTemplate)
	object, err := decode(template, path+".template")
	if err != nil {
		return r.wait(child, template, path+".template", err)
	}
	if _, known := r.sets[child.Name]; child.Set != nil && !known {
		return evaluationError(path+".replicas", errors.New("a set must not be in an if: set replicas to 0 instead"))
	}
	if len(child.Absent) == 0 {
		child.Template = r.standIns.restore(object)
	}
	return r.when(child, value, path)
}

// wait notes what a child reads that is absent, if that is why a value cannot be read.
func (r *decisionReader) wait(child *Child, value cue.Value, path string, err error) error {
	absent, err := r.expressions.absent(value, path, err)
	child.Absent = append(child.Absent, absent...)
	return err
}

// when reads whether a child may be created.
func (r *decisionReader) when(child *Child, value cue.Value, path string) error {
	when := value.LookupPath(pathWhen)
	if !when.Exists() {
		return nil
	}
	holds, err := when.Bool()
	child.Delayed = !holds
	return r.wait(child, when, path+".when", err)
}

// optionalBool reads a condition. It does not hold if it reads something absent; it is nil if
// there is none.
func (r *decisionReader) optionalBool(value cue.Value, path string) (*bool, error) {
	if !value.Exists() {
		return nil, nil
	}
	holds, err := value.Bool()
	if _, err := r.expressions.absent(value, path, err); err != nil {
		return nil, err
	}
	return &holds, nil
}

// set reads the fields that make a child a set.
func (r *decisionReader) set(child *Child, value cue.Value, path string) error {
	replicas := value.LookupPath(pathReplicas)
	if !replicas.Exists() {
		return nil
	}
	count, err := replicas.Int64()
	if err != nil {
		return r.wait(child, replicas, path+".replicas", err)
	}
	var share intstr.IntOrString
	maxUnavailable := value.LookupPath(pathMaxUnavailable)
	if err := maxUnavailable.Decode(&share); err != nil {
		return r.wait(child, maxUnavailable, path+".maxUnavailable", err)
	}
	away, err := intstr.GetScaledValueFromIntOrPercent(&share, int(count), false)
	if err != nil {
		return evaluationError(path+".maxUnavailable", err)
	}
	strays, err := value.LookupPath(pathStrays).String()
	if err != nil {
		return r.wait(child, value.LookupPath(pathStrays), path+".strays", err)
	}
	child.Set = &Set{Replicas: int(count), MaxUnavailable: max(away, 1), DeleteStrays: strays == "Delete"}
	return nil
}

// transitions reads the ways out of a phase, without those that an if drops or that wait for
// something absent.
func (r *decisionReader) transitions(phase cue.Value, path string) error {
	next := phase.LookupPath(pathNext)
	if _, err := r.expressions.guards(next, path); err != nil {
		return err
	}
	for i := 0; ; i++ {
		value := next.LookupPath(cue.MakePath(cue.Index(i)))
		if !value.Exists() {
			return nil
		}
		if err := r.transition(value, fmt.Sprintf("%s.%d", path, i)); err != nil {
			return err
		}
	}
}

func (r *decisionReader) transition(value cue.Value, path string) error {
	if absent, err := r.expressions.guards(value, path); err != nil || len(absent) > 0 {
		return err
	}
	to, when, after := value.LookupPath(pathTo), value.LookupPath(pathWhen), value.LookupPath(pathAfter)
	switch {
	case !to.Exists() && !when.Exists() && !after.Exists():
		return nil // dropped by an if
	case !to.Exists():
		return &EvaluationError{Path: path + ".to", Err: errors.New("is missing"), Position: positionOfValue(value)}
	case !when.Exists() && !after.Exists():
		return &EvaluationError{Path: path, Err: errors.New(neverTaken), Position: positionOfValue(value)}
	}
	t := Transition{When: true}
	var err error
	if t.To, err = to.String(); err != nil {
		_, err := r.expressions.absent(to, path+".to", err)
		return err
	}
	if _, known := r.phases[t.To]; !known {
		return &EvaluationError{Path: path + ".to", Err: fmt.Errorf("%q must be one of the phases", t.To), Position: positionOfValue(to)}
	}
	if after.Exists() {
		text, err := after.String()
		if err != nil {
			_, err := r.expressions.absent(after, path+".after", err)
			return err
		}
		if t.After, err = ParseTrigger(text); err != nil {
			return &EvaluationError{Path: path + ".after", Err: err, Position: positionOfValue(after)}
		}
	}
	holds, err := r.optionalBool(when, path+".when")
	if holds != nil {
		t.When = *holds
	}
	r.decision.Next = append(r.decision.Next, t)
	return err
}

// neverTaken is what is wrong with a transition that states nothing.
const neverTaken = "a transition must have when, after, or both"

// conditions reads the kind's own conditions, without those that an if drops or that wait for
// something absent in one.
func (r *decisionReader) conditions(v cue.Value) error {
	conditions := v.LookupPath(pathConditions)
	if _, err := r.expressions.guards(conditions, "conditions"); err != nil {
		return err
	}
	err := eachField(conditions, func(name string, value cue.Value) error {
		name = r.standIns.text(name)
		path := "conditions." + name
		if problem := conditionTypeProblem(name); problem != "" {
			return &EvaluationError{Path: path, Err: errors.New(problem), Position: positionOfValue(value)}
		}
		c, err := r.condition(name, value, path)
		r.decision.Conditions = append(r.decision.Conditions, c)
		return err
	})
	slices.SortFunc(r.decision.Conditions, func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	return err
}

func (r *decisionReader) condition(name string, value cue.Value, path string) (Condition, error) {
	c := Condition{Type: name, Status: metav1.ConditionFalse, Reason: "Not" + name}
	if absent, err := r.expressions.guards(value, path); err != nil || len(absent) > 0 {
		return unknownCondition(name, absent), err
	}
	status := value.LookupPath(pathStatus)
	holds, err := status.Bool()
	if absent, err := r.expressions.absent(status, path+".status", err); err != nil || len(absent) > 0 {
		return unknownCondition(name, absent), err
	}
	if holds {
		c.Status, c.Reason = metav1.ConditionTrue, name
	}
	for field, target := range map[string]*string{"reason": &c.Reason, "message": &c.Message} {
		text := value.LookupPath(cue.ParsePath(field))
		if !text.Exists() {
			continue
		}
		stated, err := text.String()
		if absent, err := r.expressions.absent(text, path+"."+field, err); err != nil {
			return c, err
		} else if len(absent) == 0 {
			*target = r.standIns.text(stated)
		}
	}
	return c, nil
}

// unknownCondition returns a condition that waits for something absent.
func unknownCondition(name string, absent []Absence) Condition {
	return Condition{Type: name, Status: metav1.ConditionUnknown, Reason: ReasonWaiting, Message: WaitingFor(absent)}
}

// present returns the part of a struct that reads nothing absent.
func (r *decisionReader) present(value cue.Value, path string) (map[string]any, error) {
	whole, err := decode(value, path)
	if err == nil {
		return whole, nil
	}
	if _, err := r.expressions.absent(value, path, err); err != nil {
		return nil, err
	}
	part := make(map[string]any)
	return part, eachField(value, func(name string, field cue.Value) error {
		path := path + "." + name
		if field.IncompleteKind() == cue.StructKind {
			below, err := r.present(field, path)
			part[name] = below
			return err
		}
		var decoded any
		err := decodeInto(field, path, &decoded)
		absent, err := r.expressions.absent(field, path, err)
		if err == nil && len(absent) == 0 {
			part[name] = decoded
		}
		return err
	})
}
