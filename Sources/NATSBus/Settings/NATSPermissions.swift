public import CallBus
internal import CallCore

/// The kind of node that a connection belongs to. Each kind has one or more users of its own at the servers.
public enum NATSRole: String, Sendable, CaseIterable {
  case edge, coordinator, push
  /// A process with all of these.
  case all
  case `operator`

  /// How many parts of a process of this role answer one request of an operator, over one connection.
  var answers: Int {
    switch self {
    case .edge, .coordinator, .push: 1
    case .all: 3
    case .operator: 0
    }
  }
}

/// The subjects that a role publishes and subscribes to on NATS.
public struct NATSPermissions: Sendable, Equatable {
  public private(set) var publish: [String] = []
  public private(set) var subscribe: [String] = []

  /// - Parameters:
  ///   - lanes: the lanes of push jobs.
  ///   - operatorName: the name under which an operator gives orders.
  public init(_ role: NATSRole, _ subjects: Subjects, lanes: [String], operatorName: String = "") {
    subscribe = [subjects.inbox(of: role.rawValue) + ".>"]
    switch role {
    case .edge: edge(subjects)
    case .coordinator: coordinator(subjects, lanes)
    case .push: push(subjects)
    case .all:
      edge(subjects)
      coordinator(subjects, lanes)
      push(subjects)
      (publish, subscribe) = (publish.withoutRepetitions, subscribe.withoutRepetitions)
    case .operator: operates(subjects, operatorName)
    }
  }

  private mutating func edge(_ subjects: Subjects) {
    publish += [
      subjects.each { $0.commands(shard: 0) }, subjects.each { $0.announceDone(shard: 0) },
      subjects.heartbeats(of: "edge"), subjects.audit(role: "edge"),
    ]
    subscribe += [subjects.replies(to: 0).anyLast, subjects.announceRequests]
    answers(subjects)
    reads(bucket: subjects.configurationBucket)
    reads(bucket: subjects.leaseBucket)
    reads(bucket: subjects.revocationBucket)
  }

  private mutating func push(_ subjects: Subjects) {
    publish += [
      subjects.each { $0.reports(shard: 0) }, subjects.pushNeverSent,
      subjects.heartbeats(of: "push"), subjects.audit(role: "push"),
    ]
    subscribe += [
      subjects.replies(to: PeerKind.gateway.number(0)).anyLast, subjects.pushWithdrawals,
      subjects.pushNeverSent,
    ]
    answers(subjects)
    reads(bucket: subjects.configurationBucket)
    reads(bucket: subjects.pushKeyBucket)
    let stream = subjects.pushStream
    asks([
      // Shows whether the cluster's buckets exist yet.
      JetStreamSubject.information(JetStreamSubject.stream(ofBucket: subjects.leaseBucket)),
      JetStreamSubject.information(stream), JetStreamSubject.serve(stream, "*"),
      JetStreamSubject.next(stream, "*"),
    ])
    // Webhooks: events are read, dead letters are written, and the bucket says how far each webhook is.
    let events = subjects.appStream(.events)
    asks([JetStreamSubject.information(events), JetStreamSubject.message(events)])
    subscribe.append(subjects.appStream(.events, app: "*"))
    publish.append(subjects.appStream(.deadLetters, app: "*"))
    reads(bucket: subjects.webhookBucket)
    publish.append(JetStreamSubject.prefix(ofBucket: subjects.webhookBucket) + ">")
    // Acknowledgements of jobs; newer servers put domain and account before the stream.
    publish += ["$JS.ACK.\(stream).>", "$JS.ACK.*.*.\(stream).>"]
  }

  private mutating func coordinator(_ subjects: Subjects, _ lanes: [String]) {
    publish += [
      subjects.replies(to: 0).anyLast, subjects.replies(to: PeerKind.gateway.number(0)).anyLast,
      subjects.replies(to: PeerKind.coordinator.number(0)).anyLast, subjects.coordinator(0).anyLast,
      subjects.each { $0.peers(shard: 0) }, subjects.heartbeats, subjects.announceRequests,
      subjects.pushWithdrawals, subjects.audit(role: "coordinator"),
      subjects.journalStream + ".*", subjects.records, subjects.histories,
      subjects.appStream(.events, app: "*"),
    ]
    publish += lanes.map { subjects.pushJobs(lane: $0) }
    subscribe += [
      subjects.each { $0.commands(shard: 0) }, subjects.each { $0.reports(shard: 0) },
      subjects.each { $0.peers(shard: 0) }, subjects.each { $0.announceDone(shard: 0) },
      subjects.heartbeats, subjects.heartbeats(of: "*"), subjects.announceRequests,
      subjects.coordinator(0).anyLast, subjects.replies(to: PeerKind.coordinator.number(0)).anyLast,
      subjects.adminUsers, subjects.adminCalls,
    ]
    answers(subjects)
    for bucket in subjects.buckets {
      reads(bucket: bucket)
      let stream = JetStreamSubject.stream(ofBucket: bucket)
      asks([JetStreamSubject.create(stream), JetStreamSubject.purge(stream)])
      publish.append(JetStreamSubject.prefix(ofBucket: bucket) + ">")
    }
    for number in 0..<JetStreamJournal.streamsMax {
      let stream = JetStreamJournal.stream(number, of: subjects)
      asks([
        JetStreamSubject.create(stream), JetStreamSubject.information(stream),
        JetStreamSubject.message(stream), JetStreamSubject.purge(stream),
      ])
    }
    let kept =
      [subjects.recordStream, subjects.historyStream]
      + AppStreamKind.allCases.map { subjects.appStream($0) }
    for stream in [subjects.pushStream, subjects.auditStream] + kept {
      asks([JetStreamSubject.create(stream), JetStreamSubject.information(stream)])
    }
    asks(kept.map { JetStreamSubject.update($0) })
    asks([
      JetStreamSubject.follow(subjects.historyStream),
      JetStreamSubject.unfollow(subjects.historyStream, "*"),
      JetStreamSubject.message(subjects.historyStream),
    ])
    asks([JetStreamSubject.list])
  }

  private mutating func operates(_ subjects: Subjects, _ name: String) {
    publish += [
      subjects.adminStatus, subjects.adminCall, subjects.adminUser, subjects.adminUsers,
      subjects.adminCalls, subjects.order("*", by: name),
    ]
    asks([
      JetStreamSubject.information(subjects.pushStream),
      JetStreamSubject.information(subjects.auditStream),
      JetStreamSubject.message(subjects.auditStream),
      JetStreamSubject.information(subjects.recordStream),
      JetStreamSubject.message(subjects.recordStream),
    ])
    for stream in AppStreamKind.allCases.map({ subjects.appStream($0) }) {
      asks([JetStreamSubject.information(stream), JetStreamSubject.message(stream)])
    }
    reads(bucket: subjects.webhookBucket)
  }

  /// The requests that every node receives from operators. `allow_responses` permits the answers.
  private mutating func answers(_ subjects: Subjects) {
    subscribe += [
      subjects.adminStatus, subjects.adminCall, subjects.adminUser,
      subjects.order("*", by: "*"),
    ]
  }

  /// Reading and watching a bucket.
  private mutating func reads(bucket: String) {
    let stream = JetStreamSubject.stream(ofBucket: bucket)
    asks([
      JetStreamSubject.information(stream), JetStreamSubject.message(stream),
      JetStreamSubject.follow(stream), JetStreamSubject.unfollow(stream, "*"),
    ])
  }

  private mutating func asks(_ questions: [String]) {
    publish += questions.map { JetStreamSubject.api + $0 }
  }
}

extension NATSPermissions {
  /// The value of a variable in the servers' configuration.
  /// - Parameter answers: how often the user may answer a request. Operators get no requests.
  func text(answers: Int) -> String {
    let allowance =
      switch answers {
      case 0: ""
      case 1: "  allow_responses: true\n"
      default: "  allow_responses: { max: \(answers) }\n"
      }
    func list(_ subjects: [String]) -> String {
      subjects.map { "    \"\($0)\"\n" }.joined()
    }
    return """
      {
        publish: { allow: [
      \(list(publish))  ] }
        subscribe: { allow: [
      \(list(subscribe))  ] }
      \(allowance)}
      """
  }

  /// A file for servers to include in `authorization`, with one variable for each role and each operator. Servers
  /// refuse a variable that they do not use.
  public static func file(
    _ subjects: Subjects, lanes: [String], operators: [String]
  ) -> String {
    var out = """
      # The subjects of each role of Callmesh. Printed by: callctl nats-permissions
      # Print it anew for another name of the cluster (--cluster), for other operators, and with each new version.

      """
    for role in NATSRole.allCases where role != .operator {
      let permissions = Self(role, subjects, lanes: lanes)
      out +=
        "\nCALLMESH_\(role.rawValue.uppercased()): \(permissions.text(answers: role.answers))\n"
    }
    for name in operators {
      let permissions = Self(.operator, subjects, lanes: lanes, operatorName: name)
      out += "\nCALLMESH_OPERATOR_\(Subjects.keyPart(name).replacing("-", with: "_")): "
      out += "\(permissions.text(answers: NATSRole.operator.answers))\n"
    }
    return out
  }
}

extension Subjects {
  /// A subject of one shard, with a wildcard in place of the shard.
  fileprivate func each(_ subject: (Subjects) -> String) -> String {
    subject(Subjects(cluster: cluster, shardCount: 1)).replacing(
      "\(cluster).shard.0.", with: "\(cluster).shard.*.")
  }
}

extension [String] {
  fileprivate var withoutRepetitions: [String] {
    var seen: Set<String> = []
    return filter { seen.insert($0).inserted }
  }
}

extension String {
  /// With a wildcard in place of the last token.
  fileprivate var anyLast: String {
    lastIndex(of: ".").map { String(self[...$0]) + "*" } ?? self
  }
}
