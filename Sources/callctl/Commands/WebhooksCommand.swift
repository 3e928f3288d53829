internal import ArgumentParser
internal import CallBus
internal import CallCore
internal import CallTelemetry

struct WebhooksCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "webhooks",
    abstract: "How far the events of calls have come to the webhooks of apps.",
    discussion: """
      OPEN counts the events that were read and not delivered, OLDEST says how long the oldest event waits \
      that the webhook does not have, DEAD counts those that were given up. A webhook is named by its host \
      and by a number, since its URL may hold a secret. OWNER is the gateway that delivers; none for longer \
      than half a minute: no gateway has the file of keys.

        callctl webhooks                          all of them
        callctl webhooks --app demo
        callctl webhooks --app demo --dead-letters  the events that the app's webhooks did not take

      Exit status: 0 answered; 1 the cluster has no webhooks, or they cannot be read; 2 the cluster cannot \
      be reached.
      """)

  @Option(help: "Only webhooks of this app.") var app: String?
  @Flag(help: "The events that were given up, the last ones last, for deadLettersKept.")
  var deadLetters = false
  @OptionGroup var length: ListLength
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func validate() throws {
    if deadLetters, app == nil { throw ValidationError("--dead-letters needs --app.") }
  }

  func run() async throws {
    try await cluster.withCluster { questions in
      do {
        let reader = try await WebhookReader(questions)
        if deadLetters, let app {
          let letters = try await reader.deadLetters(of: app, limit: length.limit)
          try JSONOutput.print(letters, asJSON: json, else: WebhooksText.deadLetters(letters))
        } else {
          let rows = try await reader.rows(app: app, now: CalendarTime.nowMilliseconds())
          try JSONOutput.print(rows, asJSON: json, else: WebhooksText.table(rows))
        }
      } catch let error as BusError {
        throw CallctlError.failed(
          "the webhooks cannot be read: \(error). Coordinators make their streams, unless eventsKept is "
            + "0. May this user read \(questions.subjects.webhookBucket)?")
      }
    }
  }
}
