public import CallCore
public import NIOCore

/// A simulator's options. The defaults are the strict ones.
public struct APNsSimulatorOptions: Sendable {
  /// The port; 0: a free one.
  public var port: Int = 0
  public var host = "127.0.0.1"
  public var environment = APNsEnvironment.production
  /// Keys that provider tokens may be signed with; each brings its team.
  public var keys: [APNsProviderKey]
  /// The bundle ids of those teams.
  public var bundles: Set<String>
  public var strangers = APNsTokenBook.Strangers.refuse
  public var leniency: APNsLeniency = []
  public var script = APNsScript()

  /// The limit of streams, once a push was accepted.
  public var streamsMax = 1000
  /// Shared with other simulators. A stream beyond it gets RST_STREAM(REFUSED_STREAM).
  public var streamBudget: APNsStreamBudget?
  /// After `BadDeviceToken` the limit is 1 again until a push is accepted.
  public var narrowsAfterBadToken = true
  /// The number of `BadDeviceToken` after which a connection is closed with GOAWAY; nil: never.
  public var badTokensMax: Int?
  /// The silence after which a connection is closed with GOAWAY `IdleTimeout`.
  public var idleTimeout: TimeAmount = .hours(1)
  /// Pushes to one token within a second, before `TooManyRequests`; nil: any number.
  public var tokenPushesPerSecond: Int?
  /// Divides the time limits of provider tokens: with 600 they expire after 6 s, and may change
  /// every 2 s.
  public var timeScale: Int64 = 1

  public var certificate = Certificate.valid
  /// The protocols that ALPN offers.
  public var protocols = ["h2"]
  /// The number of event loops, if the simulator makes its own.
  public var threads = 1
  public var eventLoopGroup: (any EventLoopGroup)?
  /// The server's clock.
  public var clock: @Sendable () -> Timestamp
  /// Judges the pushes that reach devices. Wrong ones count as violations.
  public var devices: APNsDevices?
  /// Called with each push that reaches a device, on an event loop: it must not block.
  public var onPush: (@Sendable (APNsPush) -> Void)?

  public enum Certificate: Sendable {
    case valid
    /// For another host.
    case otherName
    /// Expired.
    case expired
    /// From an unknown authority.
    case untrusted
  }

  public init(
    keys: [APNsProviderKey] = [APNsProviderKey(id: "KEYID12345", team: "TEAMID1234")],
    bundles: Set<String> = ["com.example.calls"]
  ) {
    self.keys = keys
    self.bundles = bundles
    clock = { wallClock() }
  }
}
