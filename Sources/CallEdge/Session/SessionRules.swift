package import CallCore
import Synchronization

/// The rates of one session.
struct SessionRate {
  /// Commands a second.
  var perSecond: Int32
  /// Commands at once.
  var burst: Int32
  var bytesPerSecond: Int32
  var bytesBurst: Int32

  init(_ limits: AppLimits, _ rules: SessionRules) {
    let commands = limits[.commandsPerSession]
    perSecond = Int32(clamping: commands > 0 ? commands : rules.configuration.commandsPerSecond)
    burst = Int32(
      clamping: commands > 0 ? limits.burst(.commandsPerSession) : rules.configuration.commandsBurst
    )
    bytesPerSecond = Int32(clamping: limits[.bytesPerSession])
    // At least the largest frame.
    bytesBurst = Int32(clamping: max(limits.burst(.bytesPerSession), 1_048_576))
  }
}

/// The limits and times of sessions; one object for all sessions of a node.
package final class SessionRules: Sendable {
  /// This edge's number in sessions.
  package let edge: UInt64
  let configuration: EdgeConfiguration
  /// How long until one frame that could not be read, or one refused attach, is forgiven.
  package static let badFrameForgivenAfter: Span = .seconds(60)
  /// How long the peer may take to answer a close frame.
  package let closeTimeout: Span = .seconds(2)
  /// How long a socket stays open after a close frame that the peer reads late: after all that waits before
  /// it, or after it has sent all of a message that is too large.
  package let lingerTimeout: Span = .seconds(10)
  /// How often one session may ask all shards for its calls.
  package let callsInterval: Span = .seconds(10)
  /// Calls that a session remembers: all that may be live, and some that are doubtful or were taken over. Policy: forget
  /// the oldest of those that do not count as live; where all do, the oldest.
  var placedCallsMax: Int { configuration.limits.liveCallsPerDevice + 11 }
  /// The edge drains: no device attaches and no call is placed.
  package var isDraining: Bool {
    get { draining.load(ordering: .relaxed) }
    set { draining.store(newValue, ordering: .relaxed) }
  }
  private let draining = Atomic(false)

  /// The size of the bucket of bad frames, which refills by one a second: `PeerLimits.badFramesMax - 1` bad frames
  /// empty it.
  var badFramesBurst: Int { (configuration.peers.badFramesMax - 1) * Int(badFrameCost / 1000) }
  let badFrameCost = SessionRules.badFrameForgivenAfter.microseconds / 1000

  /// The limits of apps; nil: all apps have the defaults.
  let apps: AppGates?
  /// The edges that devices are sent to, if they asked for it.
  package let nearer: NearerEdges

  /// Whether the devices of an app's users may see which calls their users are in.
  func showsOngoing(_ app: String) -> Bool { apps?.gate(of: app)?.terms.ongoingCalls ?? false }

  /// Whether the app keeps histories.
  func keepsHistory(_ app: String) -> Bool {
    apps?.gate(of: app)?.terms.subscriptions.contains(.history) ?? false
  }

  /// The reports that an app's sessions send about the answered calls that were placed there.
  func talkingReports(of app: String) -> TalkingReports {
    let terms = apps?.gate(of: app)?.terms
    if terms?.ongoingCalls ?? false { return .withDetails }
    // An app that has chosen at all wants to know of each second call: to refuse it, or to say so in its invite.
    let isWanted = terms?.secondCalls != nil || configuration.limits.busyWhileInCall
    return isWanted ? .ids : .none
  }

  package init(edge: UInt64, configuration: EdgeConfiguration, apps: AppGates? = nil) {
    self.edge = edge
    self.apps = apps
    self.configuration = configuration
    nearer = NearerEdges(
      own: configuration.publicURL ?? "", shardCount: configuration.shardCount)
  }
}
