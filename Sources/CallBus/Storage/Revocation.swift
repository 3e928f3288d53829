/// That no token of a user counts which was issued by a time: an entry in the bucket of revocations.
/// The value is the time as text, so that a person can read it with any NATS tool.
public struct Revocation: Sendable, Equatable {
  /// No setting lets a token be good for longer. After that an entry says nothing, and goes.
  public static let kept: Duration = .seconds(91 * 86_400)
  /// Some 100,000 users. When it is full, further ones are refused, not older ones forgotten.
  public static let bytesMaximum = 16 << 20

  public var app: String
  public var user: String
  /// Since 1970.
  public var atSeconds: Int64

  public init(app: String, user: String, atSeconds: Int64) {
    self.app = app
    self.user = user
    self.atSeconds = atSeconds
  }

  /// nil for what is none.
  public init?(_ entry: KeyValueEntry) {
    let parts = entry.key.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, let app = Subjects.keyText(parts[0]),
      let user = Subjects.keyText(parts[1]), let value = entry.value,
      let seconds = Int64(String(decoding: value, as: UTF8.self))
    else { return nil }
    self.init(app: app, user: user, atSeconds: seconds)
  }

  public var key: String { "\(Subjects.keyPart(app)).\(Subjects.keyPart(user))" }

  /// How the bucket is made.
  public static func bucket(_ options: BucketOptions) -> BucketOptions {
    var options = options
    options.maximumAge = kept
    options.bytesMax = Int64(bytesMaximum)
    return options
  }

  /// Stores it, unless as much was revoked before.
  /// - Throws: `BusError`, where it is not stored, or where that is not known.
  public func store(in bucket: some KeyValueBucket) async throws {
    var last = AppendResult.refused
    for _ in 0..<5 {
      let present = try await bucket.get(key)
      if let present, let before = Revocation(present), before.atSeconds >= atSeconds { return }
      last = await withCheckedContinuation { continuation in
        bucket.put(key, Array("\(atSeconds)".utf8), expecting: present?.revision ?? 0) {
          continuation.resume(returning: $0)
        }
      }
      // Refused: another operator was faster. Else it may be stored: the next look tells.
      if case .appended = last { return }
    }
    throw BusError.failed("the revocation cannot be stored: \(last)")
  }

  /// Hands over each revocation that there is and that comes.
  /// - Returns: when all that are there were handed over.
  public static func follow(
    _ bucket: some KeyValueBucket, unreadable: @escaping @Sendable (String) -> Void,
    _ handler: @escaping @Sendable (Revocation) -> Void
  ) async throws -> any BusSubscription {
    try await bucket.watch(">") { entry in
      // Who is taken off the list stays on it here until the next start.
      guard entry.value != nil else { return }
      guard let revocation = Revocation(entry) else { return unreadable(entry.key) }
      handler(revocation)
    }
  }
}
