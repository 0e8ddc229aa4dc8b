// Package playground answers what the playground of the site asks: what vet finds in a kind and its sample, the CRD,
// what the controller would do for the sample, and a run through time.
//
// It knows texts. It does not know files, browsers, or how long an answer may take.
package playground

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/internal/manifest"
	"github.com/fescue-dev/fescue/internal/vet"
)

// Names of the texts in what is reported about them.
const (
	KindFile   = "kind.cue"
	SampleFile = "sample.yaml"
	StepsFile  = "steps"
)

// Request has the texts.
type Request struct {
	// Kind is a CUE file with kinds.
	Kind string `json:"kind"`
	// Sample has manifests.
	Sample string `json:"sample"`
	// Steps is a scenario, which may apply sample.yaml. If it is empty, the sample lives by itself.
	Steps string `json:"steps"`
}

// Part is a part of the answer: exactly one field is set.
type Part struct {
	// Findings are what is wrong with the texts. They are complete for a text when Checked names it.
	Findings []Finding `json:"findings,omitempty"`
	// Checked is the name of a text all of whose findings are known.
	Checked string `json:"checked,omitempty"`
	// CRD has the definitions of the kinds, and Rendered what their controllers would do, as YAML.
	CRD      string  `json:"crd,omitempty"`
	Rendered string  `json:"rendered,omitempty"`
	Moment   *Moment `json:"moment,omitempty"`
	// Done is set in the last part.
	Done bool `json:"done,omitempty"`
}

// Finding is an error or advice at a line of a text. Line is 0 if none is known.
type Finding struct {
	File   string        `json:"file"`
	Line   int           `json:"line"`
	Text   string        `json:"text"`
	Check  mistake.Check `json:"check,omitempty"`
	Advice bool          `json:"advice,omitempty"`
}

// start is the time at which the sample is created, so that the same texts have the same answer.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Answer calls send with each part of the answer to a request, as soon as it is known.
func Answer(r Request, send func(Part)) {
	defer send(Part{Done: true})
	kinds := load.NewKinds()
	_, err := kinds.AddText(r.Kind)
	v := vet.New(kinds)
	if err == nil {
		v.Advise(kinds.Added())
	}
	sendFindings(send, KindFile, v.Report, err)
	if len(kinds.Added()) == 0 {
		return
	}
	text, err := crds.YAML(false, crds.Webhook{},
		slices.DeleteFunc(slices.Clone(kinds.Added()), func(k *kind.Kind) bool { return k.Target != nil })...)
	if err != nil {
		text = []byte("# " + err.Error())
	}
	send(Part{CRD: string(text)})
	objects, unread := vet.Read(vet.File{Name: SampleFile, Text: []byte(r.Sample)})
	if len(unread) > 0 {
		sendFindings(send, SampleFile, vet.Report{Errors: unread}, nil)
		return
	}
	send(Part{Rendered: rendered(v, objects)})
	sendFindings(send, StepsFile, vet.Report{}, run(r, kinds, func(m Moment) { send(Part{Moment: &m}) }))
	// Last, because this lets the sample live in several ways.
	v.Report = vet.Report{}
	v.Skips = func(why kind.Unknown) bool { return why.Elsewhere }
	v.File(vet.File{Name: SampleFile, Text: []byte(r.Sample)})
	sendFindings(send, SampleFile, v.Report, nil)
}

// sendFindings sends what was found in a text. err joins errors that are no findings.
func sendFindings(send func(Part), file string, report vet.Report, err error) {
	var found []Finding
	for i, f := range slices.Concat(report.Errors, report.Advice) {
		text := strings.TrimPrefix(f.Message, "advice: ")
		if f.Name != "" {
			text = f.Kind + "/" + f.Name + ": " + text
		}
		found = append(found, Finding{File: file, Line: f.Line, Text: withinFolder(text), Check: f.Check,
			Advice: i >= len(report.Errors)})
	}
	for _, e := range syntax.Unjoined(err) {
		found = append(found, placed(file, e))
	}
	if len(found) > 0 {
		send(Part{Findings: found})
	}
	send(Part{Checked: file})
}

// placed returns the finding of an error that may begin with the name of a text and a line, as in steps:3: unknown
// command.
func placed(file string, err error) Finding {
	text := withinFolder(err.Error())
	if rest, ok := strings.CutPrefix(text, file+":"); ok {
		number, message, _ := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(number); err == nil {
			return Finding{File: file, Line: line, Text: message}
		}
	}
	return Finding{File: file, Text: text}
}

// withinFolder names the kind's file in a text as the page does.
func withinFolder(text string) string { return strings.ReplaceAll(text, "/kinds/"+KindFile, KindFile) }

// rendered returns what fescue render prints about objects at the start, or why nothing.
func rendered(v *vet.Vetter, objects []manifest.Object) string {
	var all []string
	objects, observed := v.Divide(slices.Clone(objects), nil)
	for _, o := range objects {
		err := v.Render(o, observed, start, func(r vet.Rendered) error {
			text, err := yaml.Marshal(r)
			all = append(all, string(text))
			return err
		})
		if err != nil {
			all = append(all, "# "+strings.ReplaceAll(err.Error(), "\n", "\n# ")+"\n")
		}
	}
	return withinFolder(strings.Join(all, "---\n"))
}
