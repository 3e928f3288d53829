public import CallCore

/// How a device reaches the cluster and how persistent it is.
///
/// The defaults suit a phone. All spans are measured with the device's monotonic clock.
public struct DeviceConfiguration: Sendable {
  /// The edges' addresses, `wss://host:port`, or `ws://` without TLS. They are tried in turn, from
  /// `firstEdge`. Give devices different orders, so that the devices of an edge that dies spread over
  /// all the others.
  public var edges: [String]
  /// Index in `edges` of the first edge to try.
  public var firstEdge = 0
  /// The user's JWT for the first attach. Empty: it is fetched first, where the device has a way to do that.
  public var token: String
  /// Whether the app answers `ClientMachine.Action.renewToken`. Without that, the session ends when
  /// the token does.
  package var renewsToken = false
  /// This device's id: unique among the user's devices and the same in every run of the app.
  public var device: String
  /// The name that others see, such as "Ann's phone".
  public var deviceName = ""
  /// The SDK's name and version, for the operators' statistics.
  public var client = "callmesh-swift/1"
  /// The device places calls, and is not rung by those to its user: a click-to-call page, a robot.
  public var onlyPlaces = false
  /// The app gets the calls that the user is in, on all devices (`ClientEvent.ongoing`), if the cluster's file of keys
  /// lets it.
  public var wantsOngoing = false
  /// The app gets an event when the user's history changes (`ClientEvent.history`), if the cluster's file of keys lets
  /// it.
  public var wantsHistory = false
  /// The app gets credentials for the TURN servers, if the edge has some: with `ClientEvent.attached`, and new ones in
  /// time with `ClientEvent.relays`.
  public var wantsRelays = false
  /// The time after which an unanswered command is retransmitted. The cluster itself answers
  /// `tryAgain` after 5 s.
  public var commandTimeout: Span = .seconds(7)
  /// Transmissions of a command, the first one included, before it fails with `tryAgain`.
  public var commandAttempts = 4
  /// How long a `place` or `transfer` waits for its reply, over breaks of the connection, before it fails. A call
  /// must not begin a minute late.
  public var placePatience: Span = .seconds(30)
  /// How long a hang-up, decline, busy or cancel is retransmitted: the longest ring timeout of a cluster's default
  /// configuration.
  public var leavePatience: Span = .seconds(180)
  /// Limit for connecting, and again for the reply to the attach.
  public var attachTimeout: Span = .seconds(10)
  /// After a session broke, the first attempt is made at a random moment of this span, because all
  /// devices of an edge lose their sessions at once.
  public var reconnectSpread: Span = .seconds(1)
  /// The wait before the second attempt to connect. It doubles with each further attempt, with jitter
  /// of half, and is four times as long after an attempt that got no answer in time. A device that is in a call waits
  /// 2 s at most, sixty times.
  public var backoffMinimum: Span = .milliseconds(250)
  /// The longest wait between attempts to connect.
  public var backoffMaximum: Span = .seconds(15)
  /// How long an edge that announced its shutdown is avoided. It is used all the same if there is no
  /// other, or after an attempt failed.
  public var drainingEdgeAvoided: Span = .seconds(30)
  /// The most commands that may wait for a reply. One more is refused with `rateLimited`.
  public var pendingMax = 64
  /// How long an acknowledgement may wait for a command to travel with. The cluster retransmits a
  /// delivery after 500 ms.
  public var ackDelay: Span = .milliseconds(150)
  /// Pings of the device's own. nil: the device relies on the edge's WebSocket pings alone.
  public var heartbeat: Heartbeat?
  /// How long after its deadline a call stops ringing by itself where the device has no connection. It then ends as
  /// `unanswered`, and an answer that wins later is hung up. nil: only the cluster ends calls.
  public var ringGrace: Span? = .seconds(5)
  /// The most ended calls that are remembered, so that late retransmissions are recognised.
  public var endedCallsMax = 16
  /// The time after which a new token that has not come is requested again.
  public var newTokenTimeout: Span = .seconds(30)

  /// Whether the device moves to the edge that the cluster names as nearer to its user's calls. It does so
  /// between calls, and the edge need not be in `edges`.
  public var followsNearer = false
  /// The device moves at a random moment of this span, because all devices of a shard learn of its new
  /// owner at once.
  public var nearerSpread: Span = .seconds(60)
  /// The least time between two such moves, successful or not.
  public var nearerPause: Span = .seconds(600)

  /// - Parameters:
  ///   - edges: the edges' addresses; see the property.
  ///   - token: the user's JWT.
  ///   - device: this device's id.
  public init(edges: [String], token: String, device: String) {
    self.edges = edges
    self.token = token
    self.device = device
  }

  /// Detects a dead connection where the platform hides the edge's WebSocket pings, or sooner than
  /// those would.
  public struct Heartbeat: Sendable {
    /// After this much silence the device sends a `ping`.
    public var after: Span
    /// After this much further silence the device reconnects.
    public var timeout: Span

    public init(after: Span = .seconds(20), timeout: Span = .seconds(5)) {
      self.after = after
      self.timeout = timeout
    }
  }
}
