package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
)

// kindOptions select the kinds that a command works with.
type kindOptions struct {
	dirs    []string
	types   []string
	shipped bool
	timeout time.Duration // for loading one of dirs
	proves  bool          // whether load compares the kinds of dirs with CUE's evaluator
}

// addFlags adds --kinds, --types, --shipped-kinds and --load-timeout.
func (o *kindOptions) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.dirs, "kinds", nil, "folder with a CUE package of kinds (repeatable)")
	c.Flags().BoolVar(&o.shipped, "shipped-kinds", true, "include the kinds that Fescue ships")
	c.Flags().DurationVar(&o.timeout, "load-timeout", defaultLoadTimeout,
		"CPU time that loading a kind of --kinds may take")
	c.Flags().StringArrayVar(&o.types, "types", nil,
		"file or folder with the types of children: CRDs, or an OpenAPI document (kubectl get --raw /openapi/v2) (repeatable)")
	if err := c.MarkFlagDirname("kinds"); err != nil {
		panic(err) // the flag was added above
	}
}

// check returns an error if the flags are wrong, or a folder cannot be one of kinds.
func (o kindOptions) check() error {
	if !o.shipped && len(o.dirs) == 0 {
		return errors.New("--shipped-kinds=false leaves no kinds: add a folder with --kinds")
	}
	if o.timeout < minLoadTimeout || o.timeout > maxLoadTimeout {
		return fmt.Errorf("--load-timeout: invalid value %q: must be between %s and %s", o.timeout, minLoadTimeout,
			maxLoadTimeout)
	}
	for _, dir := range o.dirs {
		if err := load.CheckFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// load loads the kinds. Kinds that fail to load are left out, and Broken lists them; the error is about whole folders.
func (o kindOptions) load(ctx context.Context) (*load.Kinds, error) {
	if err := o.check(); err != nil {
		return load.NewKinds(), err
	}
	if len(o.dirs) == 0 {
		return load.Folders(o.shipped, o.types)
	}
	l, err := newLoader(o.timeout, o.proves)
	if err != nil {
		return load.NewKinds(), err
	}
	folders := make([]load.Folder, len(o.dirs))
	var probing errgroup.Group
	for i, dir := range o.dirs {
		folders[i].Dir = dir
		probing.Go(func() error {
			return l.probe(ctx, dir, func(part load.Folder) {
				folders[i].Selected = part.Selected
				folders[i].Only = append(folders[i].Only, part.Only...)
				folders[i].Broken = append(folders[i].Broken, part.Broken...)
				folders[i].Proofs = append(folders[i].Proofs, part.Proofs...)
			})
		})
	}
	if err := probing.Wait(); err != nil {
		return load.NewKinds(), err
	}
	return load.Folders(o.shipped, o.types, folders...)
}

// loadEach is load for a program that runs kinds: loaded receives the kinds that are loaded while
// others are still being tried, the shipped ones first.
func (o kindOptions) loadEach(ctx context.Context, loaded func([]*kind.Kind)) (*load.Kinds, error) {
	l, err := newLoader(o.timeout, o.proves)
	if err != nil {
		return load.NewKinds(), err
	}
	tried := make(chan load.Folder)
	probing, ctx := errgroup.WithContext(ctx)
	for _, dir := range o.dirs {
		probing.Go(func() error {
			return l.probe(ctx, dir, func(part load.Folder) {
				select {
				case tried <- part:
				case <-ctx.Done():
				}
			})
		})
	}
	var failed error
	go func() {
		failed = probing.Wait()
		close(tried)
	}()
	kinds, err := load.All(o.shipped)
	loaded(kinds.Behaviours())
	errs := []error{err, kinds.AddTypes(o.types...)}
	for folder := range tried {
		added, err := kinds.AddFolder(folder)
		loaded(added)
		errs = append(errs, err)
	}
	added, err := kinds.AddWaiting()
	loaded(added)
	errs = append(errs, err)
	return kinds, errors.Join(append(errs, failed)...)
}

// prove compares a kind that was loaded from a folder with CUE's evaluator.
func (o kindOptions) prove(ctx context.Context, k *kind.Kind) (load.Proof, error) {
	l, err := newLoader(o.timeout, true)
	if err != nil {
		return load.Proof{}, err
	}
	answer, err := l.try(ctx, k.Folder, o.timeout, "--only", k.LoadName())
	if err != nil || len(answer.Proofs) == 0 { // loading exceeded a limit this time
		return load.Proof{Limit: answer.Exceeded}, err
	}
	return answer.Proofs[0], nil
}
