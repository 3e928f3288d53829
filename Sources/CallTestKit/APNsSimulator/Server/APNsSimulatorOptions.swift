public import CallCore
public import NIOCore

/// How a simulator is set up. The defaults are the strict ones.
public struct APNsSimulatorOptions: Sendable {
  /// On the loopback; 0: a free one.
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
  /// Shared with other simulators: a stream beyond it is refused, which is no answer.
  public var streamBudget: APNsStreamBudget?
  /// After `BadDeviceToken` the limit is 1 again until a push is accepted.
  public var narrowsAfterBadToken = true
  /// After so many `BadDeviceToken` a connection is ended with GOAWAY; nil: never.
  public var badTokensMax: Int?
  /// A connection without a word for so long is ended with GOAWAY `IdleTimeout`.
  public var idleTimeout: TimeAmount = .hours(1)
  /// Pushes to one token within a second, before `TooManyRequests`; nil: any number.
  public var tokenPushesPerSecond: Int?
  /// Makes the times of provider tokens so many times shorter: with 600 they expire after 6 s, and
  /// may change every 2 s.
  public var timeScale: Int64 = 1

  public var certificate = Certificate.valid
  /// What ALPN offers.
  public var protocols = ["h2"]
  /// Event loops, if the simulator makes its own.
  public var threads = 1
  public var eventLoopGroup: (any EventLoopGroup)?
  /// The server's clock.
  public var clock: @Sendable () -> Timestamp
  /// Judges what reaches the devices; what is wrong counts among the violations.
  public var devices: APNsDevices?
  /// Gets each push that reaches a device. Called on an event loop: it must not wait.
  public var onPush: (@Sendable (APNsPush) -> Void)?

  public enum Certificate: Sendable {
    case valid
    /// For another host.
    case otherName
    /// Its time is over.
    case expired
    /// By an authority that nobody was told of.
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
