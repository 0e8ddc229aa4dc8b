package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/manifest"
)

// Scenario is one archive.
type Scenario struct {
	// File is the name of the archive in errors.
	File string
	// Start is the time at which it begins.
	Start time.Time
	Steps []*Step

	archive *txtar.Archive
	// files are the inputs, by name, and stale is what is expected after steps that do not exist.
	files map[string]*input
	stale []*input
}

type input struct {
	txtar.File
	line int // of its header
	used bool
}

// Step is one command.
type Step struct {
	// Line is that of the command in the file, and Text the command.
	Line int
	Text string
	// Verb is the first word of the command.
	Verb string
	// Fails means that the API server is expected to reject it, or not to have the object: the command begins
	// with !.
	Fails bool
	// Objects are to be applied.
	Objects []*unstructured.Unstructured
	// sources are where Objects, or the patch, were read.
	sources []manifest.Object
	// Target is what the command is about.
	Target simulate.Selection
	// Patch is a JSON merge patch.
	Patch map[string]any
	// Verbs and Message are those of a rejection.
	Verbs   []string
	Message string
	// Wait is how long time passes.
	Wait time.Duration

	// want is what is expected after it; hasWant is false if nothing was written yet.
	want    string
	hasWant bool
}

// Want returns what is expected after the step, and whether anything is written about it.
func (s *Step) Want() (text string, ok bool) { return s.want, s.hasWant }

// afterPrefix begins the names of the files with what is expected.
const afterPrefix = "after "

// start is when scenarios begin that do not state it.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Parse reads an archive. The error joins all errors, each of which names file and line.
func Parse(file string, text []byte) (*Scenario, error) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) // Git writes these on Windows
	s := &Scenario{File: file, Start: start, archive: txtar.Parse(text), files: make(map[string]*input)}
	var errs []error
	fail := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s:%d: %w", file, line, fmt.Errorf(format, args...)))
	}
	var wants []*input
	line := 1 + bytes.Count(s.archive.Comment, []byte("\n"))
	for _, f := range s.archive.Files {
		in := &input{File: f, line: line}
		line += 1 + bytes.Count(f.Data, []byte("\n"))
		switch {
		case strings.HasPrefix(f.Name, afterPrefix):
			wants = append(wants, in)
		case s.files[f.Name] != nil:
			fail(in.line, "the file %s appears twice", f.Name)
		default:
			s.files[f.Name] = in
		}
	}
	for i, text := range strings.Split(string(s.archive.Comment), "\n") {
		text = strings.Join(strings.Fields(text), " ")
		if text == "" || text[0] == '#' {
			continue
		}
		step := &Step{Line: i + 1, Text: text}
		if err := s.parse(step); err != nil {
			errs = append(errs, at(err, file, i+1)...)
			continue
		}
		if step.Verb != "now" {
			s.Steps = append(s.Steps, step)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if in := s.files[name]; !in.used {
			fail(in.line, "no command names the file %s", name)
		}
	}
	if len(s.Steps) == 0 && len(errs) == 0 {
		fail(1, "there is no command: write one a line, before the first file; see 'fescue test --help'")
	}
	s.assign(wants)
	return s, errors.Join(errs...)
}

// at adds the position to errors that have none.
func at(err error, file string, line int) []error {
	if errs, ok := err.(interface{ Unwrap() []error }); ok {
		return errs.Unwrap()
	}
	return []error{fmt.Errorf("%s:%d: %w", file, line, err)}
}

// assign gives the steps what is expected after them. Both are in the same order, apart from steps
// that were added or removed since.
func (s *Scenario) assign(wants []*input) {
	for _, step := range s.Steps {
		i := slices.IndexFunc(wants, func(in *input) bool { return in.Name == afterPrefix+step.Text })
		if i < 0 {
			continue
		}
		step.want, step.hasWant = string(wants[i].Data), true
		s.stale, wants = append(s.stale, wants[:i]...), wants[i+1:]
	}
	s.stale = append(s.stale, wants...)
}

// usage is how each command is written.
var usage = map[string]string{
	"now":     "now TIME",
	"apply":   "apply FILE...",
	"patch":   "patch TYPE/[NAMESPACE/]NAME PATCH",
	"delete":  "delete TYPE/[NAMESPACE/]NAME",
	"succeed": "succeed TYPE/[NAMESPACE/]NAME",
	"fail":    "fail TYPE/[NAMESPACE/]NAME",
	"hold":    "hold TYPE[/[NAMESPACE/]NAME]",
	"release": "release TYPE[/[NAMESPACE/]NAME]",
	"reject":  "reject VERB[,VERB] TYPE[/[NAMESPACE/]NAME] MESSAGE",
	"allow":   "allow VERB[,VERB] TYPE[/[NAMESPACE/]NAME]",
	"restart": "restart",
	"wait":    "wait DURATION",
	"get":     "get TYPE/[NAMESPACE/]NAME",
}

// parse reads the command of a step.
func (s *Scenario) parse(step *Step) error {
	text := step.Text
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		step.Fails, text = true, strings.TrimSpace(rest)
	}
	verb, rest, _ := strings.Cut(text, " ")
	step.Verb = verb
	use, known := usage[verb]
	if !known {
		return fmt.Errorf("unknown command %q; the commands are %s", verb,
			strings.Join(slices.Sorted(maps.Keys(usage)), ", "))
	}
	if step.Fails && !slices.Contains([]string{"apply", "patch", "get"}, verb) {
		return fmt.Errorf(
			"! is for apply and patch, which the API server can reject, and for get, if the object does not exist")
	}
	wrong := fmt.Errorf("write: %s", use)
	words := strings.Fields(rest)
	var err error
	switch verb {
	case "restart":
		if rest != "" {
			return wrong
		}
	case "now":
		if len(s.Steps) > 0 {
			return errors.New("now must be the first command")
		}
		if s.Start, err = time.Parse(time.RFC3339, rest); err != nil {
			return fmt.Errorf("invalid time %q: must be a time in RFC 3339, like 2030-01-01T00:00:00Z", rest)
		}
	case "wait":
		if step.Wait, err = time.ParseDuration(rest); err != nil || step.Wait < 0 {
			return fmt.Errorf("invalid duration %q: must be like 90s, 10m or 168h", rest)
		}
	case "apply":
		if len(words) == 0 {
			return wrong
		}
		return s.readObjects(step, words)
	case "patch":
		target, patch, found := strings.Cut(rest, " ")
		if !found {
			return wrong
		}
		if step.Target, err = parseTarget(target, true); err != nil {
			return err
		}
		return s.readPatch(step, patch)
	case "reject", "allow":
		return parseRejection(step, rest, wrong)
	default:
		if len(words) != 1 {
			return wrong
		}
		step.Target, err = parseTarget(rest, verb != "hold" && verb != "release")
		return err
	}
	return nil
}

// parseRejection reads VERBS TYPE[/[NAMESPACE/]NAME] and, for reject, a message.
func parseRejection(step *Step, text string, wrong error) (err error) {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 2 || (len(words) > 2) != (step.Verb == "reject") {
		return wrong
	}
	step.Verbs, step.Message = strings.Split(words[0], ","), strings.Join(words[2:], "")
	for _, v := range step.Verbs {
		if !slices.Contains([]string{"create", "patch", "delete"}, v) {
			return fmt.Errorf("unknown verb %q: must be create, patch or delete", v)
		}
	}
	step.Target, err = parseTarget(words[1], false)
	return err
}

func parseTarget(text string, needsName bool) (simulate.Selection, error) {
	kind, name, found := strings.Cut(text, "/")
	if kind == "" || found && name == "" || needsName && !found {
		return simulate.Selection{}, fmt.Errorf("invalid object %q: must be TYPE/[NAMESPACE/]NAME, like pod/hello",
			text)
	}
	return simulate.Selection{Type: kind, Name: name}, nil
}

// file returns an input.
func (s *Scenario) file(name string) (*input, error) {
	in := s.files[name]
	if in == nil {
		return nil, fmt.Errorf("the archive has no file %s", name)
	}
	in.used = true
	return in, nil
}

func (s *Scenario) readObjects(step *Step, names []string) error {
	for _, name := range names {
		in, err := s.file(name)
		if err != nil {
			return err
		}
		// Lines are those of the archive.
		objects, problems := manifest.Read(s.File, append(bytes.Repeat([]byte("\n"), in.line), in.Data...))
		var errs []error
		for _, problem := range problems {
			errs = append(errs, problem)
		}
		for _, o := range objects {
			u := &unstructured.Unstructured{Object: o.Content}
			if u.GetKind() == "" || u.GetAPIVersion() == "" || u.GetName() == "" {
				errs = append(errs, fmt.Errorf("%s: an object needs apiVersion, kind and metadata.name", o.Position))
				continue
			}
			step.Objects, step.sources = append(step.Objects, u), append(step.sources, o)
		}
		if len(objects) == 0 && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("%s:%d: the file %s has no object", s.File, in.line, name))
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
	return nil
}

// readPatch reads a patch: YAML in braces, or the name of a file.
func (s *Scenario) readPatch(step *Step, text string) error {
	if !strings.HasPrefix(text, "{") {
		in, err := s.file(text)
		if err != nil {
			return fmt.Errorf("%w, and a patch in the command must be in braces, like {spec: {count: 3}}", err)
		}
		text = string(in.Data)
	}
	objects, problems := manifest.Read(s.File, []byte(text))
	switch {
	case len(problems) > 0:
		return fmt.Errorf("the patch is not an object in YAML: %s", problems[0].Message)
	case len(objects) != 1:
		return errors.New("the patch is empty, or more than one")
	}
	step.Patch, step.sources = objects[0].Content, objects
	return nil
}

// Updated returns the archive with what is expected after each step.
func (s *Scenario) Updated(outputs []string) []byte {
	archive := &txtar.Archive{Comment: s.archive.Comment}
	for _, f := range s.archive.Files {
		if !strings.HasPrefix(f.Name, afterPrefix) {
			archive.Files = append(archive.Files, f)
		}
	}
	for i, step := range s.Steps {
		archive.Files = append(archive.Files, txtar.File{Name: afterPrefix + step.Text, Data: []byte(outputs[i])})
	}
	return txtar.Format(archive)
}
