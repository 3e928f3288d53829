/// What is wrong with a sender's configuration, where, and what to do about it. Shows no key.
public struct SenderConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The sender's name.
  public var sender: String
  /// The file or the setting.
  public var place: String
  public var what: String
  public var remedy: String

  package init(sender: String, place: String, what: String, remedy: String) {
    self.sender = sender
    self.place = place
    self.what = what
    self.remedy = remedy
  }

  public var description: String { "push sender \"\(sender)\", \(place): \(what); \(remedy)" }
}

/// How much a sender does at a time, and for how long.
public struct SenderLimits: Sendable, Equatable {
  /// Requests under way at a time: of FCM per sender, of Web Push per push service.
  public var inFlightMax = 256
  /// Pushes that wait for one of those places, in all; a further one fails at once.
  public var waitingMax = 10_000
  /// An attempt that has no answer by then is given up.
  public var attemptTimeout: Duration = .seconds(10)
  public var connectTimeout: Duration = .seconds(3)
  /// Unused connections are closed after this.
  public var idleTimeout: Duration = .seconds(180)
  /// How long `close` waits for what is under way.
  public var closeGrace: Duration = .seconds(2)
  public init() {}
}
