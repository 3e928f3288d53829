public import CallBus
public import CallCore
public import CallTelemetry
internal import FoundationEssentials
public import Logging

/// An error in a sender's configuration, with its place and the remedy. Shows no key.
public struct SenderConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The sender's name.
  public var sender: String
  /// The file or the setting.
  public var place: String
  public var what: String
  public var remedy: String

  public var description: String { "push sender \"\(sender)\", \(place): \(what); \(remedy)" }
}

/// How much a sender does at a time, and for how long.
public struct SenderLimits: Sendable, Equatable {
  /// Requests under way at a time: of FCM per sender, of Web Push per push service.
  public var inFlightMax: Int
  /// Pushes that wait for one of those places, in all; a further one fails at once.
  public var waitingMax = 10_000
  /// An attempt that has no answer by then is given up.
  public var attemptTimeout = Span.seconds(10)
  public var connectTimeout = Span.seconds(3)
  /// Unused connections are closed after this.
  public var idleTimeout = Span.seconds(180)
  /// How long `close` waits for what is under way.
  public var closeGrace = Span.seconds(2)
  public init(inFlightMax: Int = 256) { self.inFlightMax = inFlightMax }
}

/// The dependencies of a sender.
public struct SenderEnvironment: Sendable {
  public var clock: ClusterClock
  public var metrics: MetricsRegistry
  public var logger: Logger
  /// Sleeps between attempts; nil: by the clock.
  public var pause: (@Sendable (Span) async -> Void)?
  public var chance: @Sendable () -> UInt64 = { .random(in: .min ... .max) }

  public init(
    clock: ClusterClock, metrics: MetricsRegistry = MetricsRegistry(), logger: Logger
  ) {
    self.clock = clock
    self.metrics = metrics
    self.logger = logger
  }
}

/// Reads the small files of a sender's configuration.
enum SenderFiles {
  /// More is no key file.
  static let bytesMax = 1 << 20

  static func read(_ path: String, sender: String) throws(SenderConfigurationError) -> [UInt8] {
    let data: Data
    do {
      data = try Data(contentsOf: URL(filePath: path))
    } catch {
      throw SenderConfigurationError(
        sender: sender, place: path, what: "the file cannot be read (\(plain(error)))",
        remedy: "give the path of a file that this user may read")
    }
    guard data.count <= bytesMax else {
      throw SenderConfigurationError(
        sender: sender, place: path, what: "the file is larger than \(bytesMax) bytes",
        remedy: "give the path of the right file")
    }
    return Array(data)
  }

  private static func plain(_ error: any Error) -> String {
    switch (error as? CocoaError)?.code {
    case .fileReadNoSuchFile: "there is no such file"
    case .fileReadNoPermission: "this user may not read it"
    default: "it is not a readable file"
    }
  }
}
