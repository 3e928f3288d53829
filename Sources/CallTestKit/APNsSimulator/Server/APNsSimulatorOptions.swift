public import CallCore
internal import FoundationEssentials
public import NIOCore
internal import Synchronization

/// A simulator's options. The defaults are the strict ones.
public struct APNsSimulatorOptions: Sendable {
  /// The port; 0: a free one.
  public var port: Int = 0
  public var host = "127.0.0.1"
  public var environment = APNsEnvironment.production
  /// The keys of provider tokens. Each registers its team.
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
  /// Whether the limit is 1 again after `BadDeviceToken`, until a push is accepted.
  public var narrowsAfterBadToken = true
  /// The number of `BadDeviceToken` after which a connection is closed with GOAWAY; nil: never.
  public var badTokensMax: Int?
  /// The silence after which a connection is closed with GOAWAY `IdleTimeout`.
  public var idleTimeout: TimeAmount = .hours(1)
  /// Pushes to one token within a second, before `TooManyRequests`; nil: any number.
  public var tokenPushesPerSecond: Int?
  /// Divides the time limits of provider tokens: with 600 they expire after 6 s, and may change every 2 s.
  public var timeScale: Int64 = 1

  public var certificate = Certificate.valid
  /// The protocols that ALPN offers.
  public var protocols = ["h2"]
  /// The number of event loops, if the simulator makes its own.
  public var threads = 1
  public var eventLoopGroup: (any EventLoopGroup)?
  /// The server's clock.
  public var clock: @Sendable () -> Timestamp = {
    Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
  }
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
  }
}

/// A limit of streams that several simulators share, as the nodes of a provider's cluster may.
public final class APNsStreamBudget: Sendable {
  private struct State {
    var open = 0
    var openMax = 0
    var refused = 0
  }
  private let most: Int
  private let state = Mutex(State())

  public init(_ most: Int) { self.most = most }

  /// The most streams that were open at the same time.
  public var openMax: Int { state.withLock { $0.openMax } }
  public var refused: Int { state.withLock { $0.refused } }

  /// - Returns: whether one more may open. It counts from then on.
  func enter() -> Bool {
    state.withLock { state in
      guard state.open < most else {
        state.refused += 1
        return false
      }
      state.open += 1
      state.openMax = max(state.openMax, state.open)
      return true
    }
  }

  func leave(_ count: Int) {
    if count > 0 { state.withLock { $0.open -= count } }
  }
}

/// A random UUID (version 4), in lower case.
func mintUUID() -> String {
  let (high, low) = (UInt64.random(in: 0 ... .max), UInt64.random(in: 0 ... .max))
  return CallID(high: high & ~0xF000 | 0x4000, low: low & ~(0xC000 << 48) | 0x8000 << 48)
    .description
}
