import CallBus
import CallCoordinator
import CallCore
import CallSimulation
import CallWire
import Testing

/// A coordinator joins three others that share 64 shards, on simulated time.
@Suite struct RebalancingTests {
  private struct Move: Equatable {
    var at: Timestamp
    var from: String
    var shard: Int
  }

  /// Touched by the world's thread only.
  private final class Rig: @unchecked Sendable {
    let world: SimWorld
    let nats: SimNATS
    let coordinators: [SimCoordinator]
    static let shards = 64
    private(set) var moves: [Move] = []
    private(set) var owners: [Int: String] = [:]
    /// Shards between two owners now, and the most of them at any time.
    private var unowned: Set<Int> = []
    private(set) var unownedMost = 0

    init(seed: UInt64) {
      world = SimWorld(seed: seed)
      nats = SimNATS(world)
      var options = SimCoordinatorOptions()
      options.shardCount = Self.shards
      let (world, nats) = (world, nats)
      coordinators = (1...4).map {
        SimCoordinator(name: "c\($0)", nats: nats, options: options)
      }
      nats.observers.appended.append { [unowned self] node, shard, record in
        guard let record = try? ClusterCodec.journalRecord(record.bytes) else { return }
        if record.released {
          moves.append(Move(at: world.now, from: node.name, shard: shard))
          unowned.insert(shard)
          unownedMost = max(unownedMost, unowned.count)
        } else {
          unowned.remove(shard)
          owners[shard] = node.name
        }
      }
    }

    func tearDown() {
      for coordinator in coordinators { coordinator.destroy() }
      world.unwind()
      nats.tearDown()
      world.tearDown()
    }
  }

  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func onlyWhatMustMoveMovesAndOneAfterTheOther(seed: UInt64) throws {
    let rig = Rig(seed: seed)
    let names = rig.coordinators.map(\.name)
    func desired(_ names: [String]) -> [Int: String] {
      Dictionary(
        uniqueKeysWithValues: (0..<Rig.shards).map {
          ($0, Placement.desired(shard: $0, candidates: names) ?? "")
        })
    }
    for coordinator in rig.coordinators.prefix(3) { coordinator.start() }
    rig.world.run(for: .seconds(5))
    #expect(rig.owners == desired(Array(names.prefix(3))))
    #expect(rig.moves == [], "who starts together shares from the start")

    let before = rig.owners
    rig.coordinators[3].start()
    rig.world.run(for: .seconds(5))
    let after = desired(names)
    #expect(rig.owners == after)
    let must = (0..<Rig.shards).filter { before[$0] != after[$0] }
    #expect(rig.moves.map(\.shard).sorted() == must, "each once, and no other")
    #expect(rig.moves.allSatisfy { $0.from == before[$0.shard] })
    for name in names.prefix(3) {
      let times = rig.moves.filter { $0.from == name }.map(\.at)
      for (one, next) in zip(times, times.dropFirst()) {
        // They start 50 ms apart, and their durations differ by some round trips.
        #expect((next - one).microseconds >= 40_000, "\(name) gives two shards away at once")
      }
    }
    rig.tearDown()
  }

  /// A node that leaves gives up no more shards than others can take over at once: a shard that waits for
  /// its next owner is not served.
  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func whoLeavesWaitsForWhoFollows(seed: UInt64) throws {
    let rig = Rig(seed: seed)
    for coordinator in rig.coordinators.prefix(2) { coordinator.start() }
    rig.world.run(for: .seconds(5))
    let before = rig.owners
    let leaver = rig.coordinators[0]
    leaver.shutDown()
    rig.world.run(for: .seconds(8))
    let given = rig.moves.filter { $0.from == leaver.name }.map(\.shard).sorted()
    #expect(given == before.filter { $0.value == leaver.name }.map(\.key).sorted())
    #expect(rig.owners.values.allSatisfy { $0 == rig.coordinators[1].name })
    let atOnce = CoordinatorConfiguration(nodeID: "c", cluster: "c", version: "1").releasesAtOnce
    #expect(rig.unownedMost <= atOnce, "\(rig.unownedMost) shards had nobody at once")
    rig.tearDown()
  }
}
