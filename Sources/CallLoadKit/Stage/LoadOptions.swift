package import CallClient
import CallCore
package import CallWire
import Synchronization

package struct LoadOptions: Sendable {
  package var devices = 10_000
  package var devicesPerUser = 3
  /// The share of this callload in the calls of the run.
  package var slice = LoadSlice()
  /// The number of the first user: other slices have those before.
  package var firstUser = 0
  package var connectsInFlight = 64
  /// The reconnect spread of the devices' clients; nil: their default.
  package var reconnectSpreadSeconds: Double?
  /// `wss://host:port` or `ws://host:port`, with an optional path (default `/v1/connect`). Devices spread over them.
  package var edges: [String] = []
  package var trust = EdgeTrust.system
  package var scenario: Scenario = .default
  /// Candidates that each side of every call sends; 0: what the scenario says.
  package var signals = 0
  /// The share of users whose devices attach and do not register: the cluster knows only their sessions.
  package var unregistered = 0.0
  package var codec: DeviceCodec = .protobuf
  package var sleep: SleepOptions?
  /// The seed of the run. With ``slice`` it decides who calls whom, the part of each call, and all delays.
  package var seed: UInt64 = 1
  package var app = "load"
  /// The cluster has a second app, whose users take no second call.
  package var hasStrictApp = false
  package var mintToken: @Sendable (_ user: String, _ device: String) throws -> String
  /// How long after the last arrival calls may take to end, beyond what their part plans.
  package var settleSeconds: Double = 15
  /// The number of shards of the cluster, where faults are injected into it; 0: unknown.
  package var shardCount = 0
  package var isDisturbed = false
  /// Keeps histograms of each interval of the load, for percentiles over time.
  package var keepsSeries = false
  /// Devices move to the edges that the cluster names as nearer.
  package var followsNearer = false
  /// Some users set rules that send their calls on, where the scenario has such calls. A cluster keeps rules for ever.
  package var forwards = false
  /// No node is of an earlier version. Such nodes refuse transfers, so these are not played.
  package var isOneVersion = true
  /// Reports for each call which events the app's webhook must get.
  package var reportsWebhooks = false
  /// Signs a token of the app's server, which makes groups; nil: there are none.
  package var mintServerToken: (@Sendable () throws -> String)?
  /// At the end of a stage some users read their histories. The app must have them.
  package var readsHistories = false
  /// An app's server is asked about each call, and says what a header of it wants.
  package var hasHook = false
  /// All devices ask for the calls that their users are in. The app must show them.
  package var showsOngoing = false
  /// Gets what devices send and receive; nil: no judge reads the journal.
  package var events: EventQueue?
  /// Keeps each call's ring latency beside the histogram, for percentiles of a part of the load.
  package var keepsRings = false
  /// The ramp ends after this time, and the devices connected by then take part.
  package var rampTimeoutSeconds: Double = 180

  package init(
    edges: [String],
    mintToken: @escaping @Sendable (_ user: String, _ device: String) throws -> String
  ) {
    self.edges = edges
    self.mintToken = mintToken
  }

  var roster: Roster {
    var roster = Roster(devices: devices, devicesPerUser: devicesPerUser, firstUser: firstUser)
    roster.hasStrictApp = hasStrictApp
    return roster
  }

  /// In the strict app all devices are shown their users' calls.
  func showsOngoing(to device: Int) -> Bool {
    showsOngoing || roster.isStrict(roster.user(of: device))
  }

  /// The run's seed, and another one for each further slice.
  package var ownSeed: UInt64 {
    guard slice.number > 1 else { return seed }
    var random = SplitMix64(seed: seed ^ UInt64(slice.number - 1) << 48)
    return random.next()
  }
}

/// The live numbers of a run, written by the engine and read from any task.
package final class LoadProgress: Sendable {
  package enum Phase: String, Sendable {
    case idle, connecting, registering, calling, settling, disconnecting, done
  }

  package struct Snapshot: Sendable {
    package var phase: Phase = .idle
    /// Progress in the phase: devices connected or registered, calls placed, calls settled.
    package var done = 0
    package var total = 0
    package var devicesConnected = 0
    package var callsLive = 0
    package var callsPlaced = 0
    package var callsCompleted = 0
    /// Failed calls, and devices that could not connect or register.
    package var errors = 0
    /// Broken correctness rules, as far as calls have been judged.
    package var violations = 0
    package var faults = 0
    /// Calls placed in the last second.
    package var rate: Double = 0
    /// 99th percentile of ring in microseconds, over the last second; nil without calls.
    package var ringP99: UInt64?

    package init() {}
  }

  private let state = Mutex(Snapshot())

  package init() {}

  package var snapshot: Snapshot { state.withLock { $0 } }

  func update(_ change: (inout Snapshot) -> Void) { state.withLock { change(&$0) } }

  /// A phase begins: the other numbers stay.
  func begin(_ phase: Phase, of total: Int) {
    update {
      $0.phase = phase
      $0.done = 0
      $0.total = total
    }
  }

  /// A run or a stage begins: all numbers do.
  func restart(_ phase: Phase, of total: Int, devicesConnected: Int = 0) {
    update {
      $0 = Snapshot()
      $0.phase = phase
      $0.total = total
      $0.devicesConnected = devicesConnected
    }
  }
}
