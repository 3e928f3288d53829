internal import Foundation

/// `make test` is what a change must pass. `make prove` is what a release must: it also runs tests, and arguments of
/// tests, that repeat at length what another one holds (docs/testing.md). Such a test has the trait
/// `.enabled(if: Proof.isOn, "only make prove runs it")`.
package enum Proof {
  package static let isOn = ProcessInfo.processInfo.environment["CALLMESH_PROVE"] == "1"

  /// The first of the simulation's seeds that no version before this one has run (`Tests/Run/prove.py`).
  package static let newSeeds = ProcessInfo.processInfo.environment["CALLMESH_NEW_SEEDS"]

  /// Why a test is skipped: `.enabled(if: Proof.isOn, "only make prove runs it")`.
  package static let only = "only make prove runs it"

  /// - Returns: `chosen`, and in `make prove` the others as well.
  package static func arguments<Value>(_ chosen: [Value], andInProof others: [Value]) -> [Value] {
    isOn ? chosen + others : chosen
  }
}
