/// Revokes a user's tokens that were issued up to a time: an entry in the bucket of revocations. The value is the time
/// as text, which any NATS tool shows.
public struct Revocation: Sendable, Equatable {
  /// How long an entry is kept. No setting allows tokens that live longer.
  public static let kept: Duration = .seconds(91 * 86_400)
  /// Room for some 100,000 users. Policy: refuse.
  public static let bytesMaximum = 16 << 20

  public var app: String
  public var user: String
  /// Seconds since 1970.
  public var atSeconds: Int64

  public init(app: String, user: String, atSeconds: Int64) {
    self.app = app
    self.user = user
    self.atSeconds = atSeconds
  }

  /// nil if the entry is not a revocation.
  public init?(_ entry: KeyValueEntry) {
    let parts = entry.key.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, let app = Subjects.keyText(parts[0]),
      let user = Subjects.keyText(parts[1]), let value = entry.value,
      let seconds = Int64(String(decoding: value, as: UTF8.self))
    else { return nil }
    self.init(app: app, user: user, atSeconds: seconds)
  }

  public var key: String { "\(Subjects.keyPart(app)).\(Subjects.keyPart(user))" }

  public static func bucket(_ options: BucketOptions) -> BucketOptions {
    var options = options
    options.maximumAge = kept
    options.bytesMax = Int64(bytesMaximum)
    return options
  }

  /// Stores it, unless a later time is stored already.
  /// - Throws: `BusError`, if it is not stored, or if that is unknown.
  public func store(in bucket: some KeyValueBucket) async throws {
    let failure = try await bucket.update(key) { present in
      let before = present.flatMap(Revocation.init)
      return before.map { $0.atSeconds >= atSeconds } == true ? nil : Array("\(atSeconds)".utf8)
    }
    if let failure { throw BusError.failed("the revocation cannot be stored: \(failure)") }
  }

  /// Calls `handler` for every revocation, present and future.
  /// - Parameter unreadable: called with the key of an entry that is not a revocation.
  /// - Returns: after all present ones.
  /// - Throws: `BusError`.
  public static func follow(
    _ bucket: some KeyValueBucket, unreadable: @escaping @Sendable (String) -> Void,
    _ handler: @escaping @Sendable (Revocation) -> Void
  ) async throws -> any BusSubscription {
    try await bucket.watch(">") { entry in
      // A deleted revocation stays in force here until the next start.
      guard entry.value != nil else { return }
      guard let revocation = Revocation(entry) else { return unreadable(entry.key) }
      handler(revocation)
    }
  }
}
