package main

import (
	"errors"

	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/genall"
)

// writeCRDs writes controller-gen's CRDs of the Go package at path to the folder dir.
func writeCRDs(path, dir string) error {
	// controller-gen would write the version of this program into the CRD.
	omit := true
	var generator genall.Generator = crd.Generator{OmitToolVersion: &omit}
	runtime, err := genall.Generators{&generator}.ForRoots(path)
	if err != nil {
		return err
	}
	runtime.OutputRules.Default = genall.OutputToDirectory(dir)
	if runtime.Run() {
		return errors.New("controller-gen failed, see above")
	}
	return nil
}
