internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NATSBus

/// A webhook as operators see it.
struct WebhookRow: Encodable {
  var app: String
  var host: String
  /// Identifies the URL.
  var webhook: String
  /// nil: no gateway delivers.
  var owner: String?
  var open: Int
  /// How long the oldest event waits that the webhook does not have; nil: it has all.
  var oldestSeconds: Double?
  var delivered: UInt64
  var failures: UInt64
  var deadLetters: UInt64
  /// nil while it takes what comes.
  var lastFailure: String?
  /// It has answered 410: it is asked once an hour whether it is back.
  var isGone = false
}

/// An event that was given up, as operators see it.
struct DeadLetterRow: Encodable {
  var at: String
  var type: String
  /// nil: it is of a device.
  var call: String?
  /// The user's, with the user; nil: it is of a call.
  var device: String?
  var webhook: String
  var host: String
  var attempts: UInt32
  var reason: String
}

/// Reads the progress of webhooks, and what they did not take.
struct WebhookReader {
  private let events: any AppStream
  private let letters: any AppStream
  private let bucket: any KeyValueBucket

  /// - Throws: `BusError`, as all that read.
  init(_ questions: ClusterQuestions) async throws {
    var options = BucketOptions()
    options.createsMissing = false
    events = try await questions.bus.openAppStream(.events, .events)
    letters = try await questions.bus.openAppStream(.deadLetters, .deadLetters)
    bucket = try await questions.bus.openBucket(questions.subjects.webhookBucket, options)
  }

  /// - Parameter now: in milliseconds since 1970.
  func rows(app: String?, now: Int64) async throws -> [WebhookRow] {
    var rows: [WebhookRow] = []
    for entry in try await bucket.entries(matching: ">") {
      guard let value = entry.value, let progress = try? ClusterCodec.webhookProgress(value),
        app == nil || app == progress.app
      else { continue }
      let unread = try await events.next(of: progress.app, from: progress.next)?.storedAt
      let oldest = [progress.oldest, unread].compactMap(\.self).min()
      rows.append(
        WebhookRow(
          app: progress.app, host: progress.host,
          webhook: entry.key.split(separator: ".").last.map(String.init) ?? "",
          owner: progress.owner.isEmpty ? nil : progress.owner, open: progress.open.count,
          oldestSeconds: oldest.map { max(0, Double(1000 * now - $0.microseconds) / 1e6) },
          delivered: progress.delivered, failures: progress.failures,
          deadLetters: progress.deadLetters,
          lastFailure: progress.lastFailure.isEmpty ? nil : progress.lastFailure,
          isGone: progress.isGone))
    }
    return rows.sorted { ($0.app, $0.host, $0.webhook) < ($1.app, $1.host, $1.webhook) }
  }

  /// Webhooks that have answered 410, as `app host`.
  func gone() async throws -> [String] {
    try await bucket.entries(matching: ">").compactMap { entry in
      guard let progress = entry.value.flatMap({ try? ClusterCodec.webhookProgress($0) }),
        progress.isGone
      else { return nil }
      return "\(progress.app) at \(progress.host)"
    }.sorted()
  }

  /// The last ones, in their order.
  func deadLetters(of app: String, limit: Int) async throws -> [DeadLetterRow] {
    var rows: [DeadLetterRow] = []
    var sequence: UInt64 = 1
    while let stored = try await letters.next(of: app, from: sequence) {
      sequence = stored.sequence + 1
      guard let letter = try? ClusterCodec.deadLetter(stored.bytes) else { continue }
      rows.append(
        DeadLetterRow(
          at: CalendarTime.text(milliseconds: letter.at.microseconds / 1000),
          type: letter.event.kind.type,
          call: letter.event.gone == nil ? "\(letter.event.call)" : nil,
          device: letter.event.gone.map { "\(letter.event.callee.user)/\($0.device.text)" },
          webhook: letter.endpoint, host: letter.host, attempts: letter.attempts,
          reason: letter.reason))
      if rows.count >= 2 * limit { rows.removeFirst(limit) }
    }
    return Array(rows.suffix(limit))
  }
}
