/// The lists of `callctl webhooks`.
enum WebhooksText {
  static func table(_ rows: [WebhookRow]) -> String {
    guard !rows.isEmpty else { return "No app has webhooks.\n" }
    let heading = [
      "APP", "HOST", "WEBHOOK", "OWNER", "OPEN", "OLDEST", "DELIVERED", "FAILURES", "DEAD",
      "LAST FAILURE",
    ]
    let lines = rows.map { row in
      [
        row.app, row.host, row.webhook, row.owner ?? "none", "\(row.open)",
        row.oldestSeconds.map { Figures.uptime(seconds: $0) } ?? "-", "\(row.delivered)",
        "\(row.failures)", "\(row.deadLetters)", row.lastFailure ?? "-",
      ]
    }
    return Columns.render([heading] + lines, right: 4...8).joined(separator: "\n") + "\n"
  }

  static func deadLetters(_ rows: [DeadLetterRow]) -> String {
    guard !rows.isEmpty else { return "No event was given up.\n" }
    let heading = ["GIVEN UP", "EVENT", "CALL OR DEVICE", "HOST", "WEBHOOK", "ATTEMPTS", "REASON"]
    let lines = rows.map {
      [
        $0.at, $0.type, $0.call ?? $0.device ?? "-", $0.host, $0.webhook, "\($0.attempts)",
        $0.reason,
      ]
    }
    return Columns.render([heading] + lines, right: 5...5).joined(separator: "\n") + "\n"
  }
}
