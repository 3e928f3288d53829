internal import CallCore

extension APNsReport: CustomStringConvertible {
  /// For people.
  public var description: String {
    var lines = [
      "connections     \(connectionsTotal), at most \(connectionsOpenMax) open together"
        + (handshakesFailed > 0 ? ", \(handshakesFailed) handshakes failed" : ""),
      "streams         \(streams), at most \(streamsInFlightMax) in flight on one connection"
        + (abandoned > 0 ? ", \(abandoned) given up by the client" : "")
        + (streamsBehindGoAway > 0 ? ", \(streamsBehindGoAway) behind a GOAWAY" : ""),
      "pings           \(pings)",
      "accepted        \(accepted) for \(pushesByToken.count)"
        + (pushesOfOtherTokens > 0 ? " and more" : "")
        + " tokens, at most \(pushesByTokenMax) each",
      "provider tokens \(providerTokens)"
        + (providerTokenSpacing.map {
          ", at least \($0.microseconds / 1_000_000) s apart on a connection"
        } ?? ""),
    ]
    if unanswered > 0 { lines.append("unanswered      \(unanswered), as the script wanted") }
    if dropped + replaced + expired > 0 {
      lines.append("undelivered     \(dropped) dropped, \(replaced) replaced, \(expired) expired")
    }
    lines.append("answers")
    for (answer, count) in Self.mostFirst(responses.map { ($0.key, $0.value) }) {
      lines.append("  \(count)  \(answer)")
    }
    lines.append("violations      \(violationsTotal)")
    for (kind, count) in Self.mostFirst(violations.map { ($0.key.rawValue, $0.value) }) {
      lines.append("  \(count)  \(kind)")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// Contains counts of pushes per token, but no tokens.
  public var json: String {
    var members = [
      "\"connections\":\(connectionsTotal)", "\"connections_open_max\":\(connectionsOpenMax)",
      "\"handshakes_failed\":\(handshakesFailed)", "\"streams\":\(streams)",
      "\"streams_in_flight_max\":\(streamsInFlightMax)", "\"abandoned\":\(abandoned)",
      "\"streams_behind_goaway\":\(streamsBehindGoAway)", "\"pings\":\(pings)",
      "\"accepted\":\(accepted)", "\"tokens\":\(pushesByToken.count)",
      "\"pushes_by_token_max\":\(pushesByTokenMax)",
      "\"pushes_of_other_tokens\":\(pushesOfOtherTokens)", "\"provider_tokens\":\(providerTokens)",
      "\"provider_token_spacing_seconds\":"
        + (providerTokenSpacing.map { "\($0.microseconds / 1_000_000)" } ?? "null"),
      "\"unanswered\":\(unanswered)", "\"dropped\":\(dropped)", "\"replaced\":\(replaced)",
      "\"expired\":\(expired)",
    ]
    members.append("\"responses\":" + Self.object(responses.map { ($0.key, $0.value) }))
    members.append("\"violations_total\":\(violationsTotal)")
    members.append("\"violations\":" + Self.object(violations.map { ($0.key.rawValue, $0.value) }))
    members.append("\"per_connection\":[" + connections.map(\.json).joined(separator: ",") + "]")
    return "{" + members.joined(separator: ",") + "}"
  }

  /// Names are literals of ours, which need no escaping.
  private static func object(_ counts: [(String, Int)]) -> String {
    "{" + counts.sorted { $0.0 < $1.0 }.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}"
  }

  private static func mostFirst(_ counts: [(String, Int)]) -> [(String, Int)] {
    counts.sorted { ($1.1, $0.0) < ($0.1, $1.0) }
  }
}

extension APNsReport.Connection {
  var json: String {
    let uses = providerTokenUses.map { "\($0.milliseconds)" }.joined(separator: ",")
    return "{\"number\":\(number),\"opened_at\":\(openedAt.milliseconds),\"closed_at\":"
      + (closedAt.map { "\($0.milliseconds)" } ?? "null")
      + ",\"streams\":\(streams),\"streams_in_flight_max\":\(streamsInFlightMax)"
      + ",\"accepted\":\(accepted),\"pings\":\(pings),\"abandoned\":\(abandoned)"
      + ",\"provider_token_uses\":[\(uses)],\"violations\":\(violations)}"
  }
}
