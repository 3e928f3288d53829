internal import CallCore
internal import CallMachine
internal import CallWire

/// How a device reaches the cluster, and what it wants of it.
public struct DeviceOptions: Sendable {
  /// Addresses of edges, `https://host` or `wss://host`; `http` and `ws` without TLS. The device begins at any of them, and
  /// goes on to the next when one fails.
  public var edges: [String]
  /// Index of the edge to begin with; nil: any.
  public var firstEdge: Int?
  /// The device's id, 1 to 64 bytes: unique among the user's devices, the same in every run of the app, and used by one copy
  /// of it only.
  public var device: String
  /// The name that others see, as in "answered on Ann's phone".
  public var deviceName = ""
  /// Gets a token of the user from your server. It is called at the start, when a session is about to end with its token,
  /// and when a token was refused. If it throws, it is called again later. Give it a time limit: the device waits for it.
  public var getToken: (@Sendable () async throws -> String)?
  /// The first token, if the app has one. Without `getToken` the session ends with it.
  public var token = ""
  /// Name and version of the client, for the operators' statistics.
  public var client = "callmesh-swift/1"
  /// The device is not rung: a click-to-call app, a robot.
  public var onlyPlaces = false
  /// Tell which calls the user is in, on all devices, if the operator lets the app have that.
  public var ongoing = false
  /// Tell when the user's history changes, if the operator lets the app have that.
  public var history = false
  /// Get credentials for the TURN servers of the edge, as ``Device/iceServers``.
  public var relays = false
  /// Move to the edge that is nearest to the user's calls. For devices that stay connected for long.
  public var nearer = false
  /// How frames are written.
  public var encoding = Encoding.protobuf
  /// Events of the device that wait for one reader. At the limit the oldest is dropped.
  public var eventsMax = 256
  public var limits = Limits()

  /// - Parameters:
  ///   - edges: addresses of edges; see the property.
  ///   - device: this device's id; see the property.
  ///   - getToken: gets a token of the user; see the property.
  public init(
    edges: [String], device: String, getToken: (@Sendable () async throws -> String)? = nil
  ) {
    (self.edges, self.device, self.getToken) = (edges, device, getToken)
  }

  /// How frames are written. Both say the same.
  public enum Encoding: Sendable {
    /// The smaller one.
    case protobuf
    /// The one that can be read in a trace.
    case json

    var codec: DeviceCodec { self == .json ? .json : .protobuf }
  }

  /// Time limits and sizes. The defaults are those of the device protocol, and suit a phone.
  public struct Limits: Sendable {
    /// For connecting, and again for the reply to the attach.
    public var attachTimeout: Duration = .seconds(10)
    /// After a session broke, the next attempt is made at a random moment of this time.
    public var reconnectSpread: Duration = .seconds(1)
    /// The wait before the second attempt. It doubles with each one, up to `backoffMax`.
    public var backoffMin: Duration = .milliseconds(250)
    public var backoffMax: Duration = .seconds(15)
    /// After this a command is sent again.
    public var commandTimeout: Duration = .seconds(7)
    /// How often a command is sent before it fails with `tryAgain`.
    public var commandAttempts = 4
    /// How long a `place` or `transfer` waits for its reply, over breaks of the connection, before it fails.
    public var placePatience: Duration = .seconds(30)
    /// How long a hang-up, decline, busy or cancel is sent again.
    public var leavePatience: Duration = .seconds(180)
    /// Commands that may wait for a reply. One more fails with `rateLimited`.
    public var pendingMax = 192
    /// How long an acknowledgement waits for a command to travel with.
    public var ackDelay: Duration = .milliseconds(100)
    /// After this much silence the connection is tested with a `ping`.
    public var pingAfter: Duration = .seconds(20)
    /// After this much further silence it is given up.
    public var pingTimeout: Duration = .seconds(5)
    /// How long after its deadline a call stops ringing by itself where there is no connection.
    public var ringGrace: Duration = .seconds(5)
    /// Ended calls that are remembered, so that late deliveries of theirs are recognised.
    public var endedCallsMax = 32

    public init() {}
  }
}

extension DeviceOptions {
  var configuration: DeviceConfiguration {
    var result = DeviceConfiguration(
      edges: edges.map(Self.socketAddress), token: token, device: device)
    result.firstEdge = firstEdge ?? edges.indices.randomElement() ?? 0
    result.renewsToken = getToken != nil
    result.deviceName = deviceName
    result.client = client
    result.onlyPlaces = onlyPlaces
    result.wantsOngoing = ongoing
    result.wantsHistory = history
    result.wantsRelays = relays
    result.followsNearer = nearer
    result.attachTimeout = Span(limits.attachTimeout)
    result.reconnectSpread = Span(limits.reconnectSpread)
    result.backoffMinimum = Span(limits.backoffMin)
    result.backoffMaximum = Span(limits.backoffMax)
    result.commandTimeout = Span(limits.commandTimeout)
    result.commandAttempts = limits.commandAttempts
    result.placePatience = Span(limits.placePatience)
    result.leavePatience = Span(limits.leavePatience)
    result.pendingMax = limits.pendingMax
    result.ackDelay = Span(limits.ackDelay)
    // Transports may hide the edge's WebSocket pings, as those of browsers and URLSession do.
    result.heartbeat = DeviceConfiguration.Heartbeat(
      after: Span(limits.pingAfter), timeout: Span(limits.pingTimeout))
    result.ringGrace = Span(limits.ringGrace)
    result.endedCallsMax = limits.endedCallsMax
    return result
  }

  /// `https://host` means `wss://host`, as in the JavaScript client.
  private static func socketAddress(_ text: String) -> String {
    for (scheme, socket) in [("https://", "wss://"), ("http://", "ws://")]
    where text.hasPrefix(scheme) {
      return socket + text.dropFirst(scheme.count)
    }
    return text
  }

  /// - Throws: `invalidField` for an address that is none, `invalidDevice`, `noToken`.
  func check() throws(CallmeshError) {
    guard !edges.isEmpty else { throw CallmeshError(.invalidField, "There is no edge.") }
    for edge in edges where EdgeAddress(Self.socketAddress(edge)) == nil {
      throw CallmeshError(.invalidField, "Not the address of an edge: \(edge)")
    }
    guard IdentifierRules.isDevice(device) else { throw CallmeshError(.invalidDevice) }
    guard getToken != nil || !token.isEmpty else {
      throw CallmeshError(.noToken, "Give a token, or getToken.")
    }
  }
}
