import CallCoordinator
import Testing

@Suite struct PlacementTests {
  func owners(_ nodes: [String], shards: Int) -> [String?] {
    (0..<shards).map { Placement.desired(shard: $0, candidates: nodes) }
  }

  @Test func nobodyOwnsWhereNobodyIs() {
    #expect(Placement.desired(shard: 1, candidates: []) == nil)
  }

  @Test func theOrderOfCandidatesDoesNotMatter() {
    let nodes = (1...6).map { "node-\($0)" }
    #expect(owners(nodes, shards: 256) == owners(nodes.reversed(), shards: 256))
  }

  /// A node that comes takes shards for itself only; one that goes leaves only its own.
  @Test(arguments: 1...12) func onlyWhatMustMoveMoves(count: Int) {
    let shards = 512
    let nodes = (0..<count).map { "coordinator-\($0)" }
    let before = owners(nodes, shards: shards)
    for newcomer in (0..<20).map({ "new-\($0)" }) {
      let after = owners(nodes + [newcomer], shards: shards)
      for shard in 0..<shards where before[shard] != after[shard] {
        #expect(after[shard] == newcomer)
      }
      let moved = (0..<shards).count { before[$0] != after[$0] }
      // Its fair share, give or take what chance does (six deviations).
      let fair = Double(shards) / Double(count + 1)
      #expect(abs(Double(moved) - fair) <= 6 * fair.squareRoot())
    }
    for gone in nodes {
      let after = owners(nodes.filter { $0 != gone }, shards: shards)
      for shard in 0..<shards where before[shard] != gone {
        #expect(after[shard] == before[shard])
      }
    }
  }

  @Test func decisions() {
    func decide(
      holds: Bool, desired: String?, serves: Bool = true, _ lease: Placement.LeaseView,
      standsIn: Bool = false
    ) -> Placement.Decision {
      Placement.decide(
        node: "a", holds: holds, desired: desired, desiredServes: serves, lease: lease,
        standsIn: standsIn)
    }
    #expect(decide(holds: false, desired: "a", .free) == .claim)
    #expect(decide(holds: false, desired: "a", .other) == .keep)
    #expect(decide(holds: false, desired: "b", .free) == .keep)
    // Lost on the way: claimed anew, or left to who should have it.
    #expect(decide(holds: false, desired: "a", .own) == .claim)
    #expect(decide(holds: false, desired: "b", .own) == .yield)
    #expect(decide(holds: true, desired: "a", .own) == .keep)
    #expect(decide(holds: true, desired: "b", .own) == .release)
    // Nothing is given up for a node that does not take it yet.
    #expect(decide(holds: true, desired: "b", serves: false, .own) == .keep)
    // A shard that lost its owner does not wait for that node. A shard that has an owner is left alone.
    #expect(decide(holds: false, desired: "b", serves: false, .free, standsIn: true) == .claim)
    #expect(decide(holds: false, desired: "b", serves: false, .other, standsIn: true) == .keep)
  }
}
