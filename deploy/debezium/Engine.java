import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Runs Debezium's engine with a connector's configuration, and does with its records what Kafka Connect
 * does: converts them as the configuration says and sends them with the client's own partitioner. For tests
 * and to try a configuration; in production Kafka Connect does this.
 *
 * <p>Words: the connector's JSON, the brokers, then name=value for what is to be otherwise. Ends, in order,
 * when its input does. Says "polling" when the slot is read.
 */
public final class Engine {
    public static void main(String[] words) throws Exception {
        Map<String, String> config = new HashMap<>();
        JsonNode json = new ObjectMapper().readTree(new File(words[0])).get("config");
        json.fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        for (int word = 2; word < words.length; word++) {
            int end = words[word].indexOf('=');
            config.put(words[word].substring(0, end), words[word].substring(end + 1));
        }
        Properties engineConfig = new Properties();
        engineConfig.putAll(config);
        engineConfig.setProperty("name", "catraca-outbox");

        Map<String, Object> producing = Map.of(
            "bootstrap.servers", words[1], "acks", "all", "max.block.ms", "20000",
            "max.in.flight.requests.per.connection", "1");
        Converter key = made(config, "key.converter", Converter.class);
        Converter value = made(config, "value.converter", Converter.class);
        HeaderConverter header = made(config, "header.converter", HeaderConverter.class);
        key.configure(Map.of(), true);
        value.configure(Map.of(), false);
        header.configure(Map.of("converter.type", "header"));

        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer())) {
            DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine
                .create(io.debezium.engine.format.ChangeEventFormat.of(Connect.class))
                .using(engineConfig)
                .using(new DebeziumEngine.ConnectorCallback() {
                    @Override
                    public void pollingStarted() {
                        System.out.println("polling");
                    }
                })
                .using((success, message, error) -> {
                    if (!success) {
                        System.err.println(message);
                        if (error != null) {
                            error.printStackTrace();
                        }
                        System.exit(1);
                    }
                })
                .notifying((events, committer) -> {
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    for (RecordChangeEvent<SourceRecord> event : events) {
                        SourceRecord record = event.record();
                        // Heartbeats have a topic of their own, which nobody reads here.
                        if (record.topic().startsWith("__debezium-heartbeat")) {
                            continue;
                        }
                        RecordHeaders headers = new RecordHeaders();
                        record.headers().forEach(h -> headers.add(h.key(),
                            header.fromConnectHeader(record.topic(), h.key(), h.schema(), h.value())));
                        byte[] keyBytes = key.fromConnectData(record.topic(), record.keySchema(), record.key());
                        byte[] valueBytes =
                            value.fromConnectData(record.topic(), record.valueSchema(), record.value());
                        sent.add(producer.send(new ProducerRecord<>(record.topic(), record.kafkaPartition(),
                            record.timestamp(), keyBytes, valueBytes, headers)));
                    }
                    for (Future<RecordMetadata> one : sent) {
                        try {
                            one.get();
                        } catch (java.util.concurrent.ExecutionException failed) {
                            throw new IllegalStateException("Kafka did not take a record", failed);
                        }
                    }
                    for (RecordChangeEvent<SourceRecord> event : events) {
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                })
                .build();
            ExecutorService thread = Executors.newSingleThreadExecutor();
            thread.execute(engine);
            while (System.in.read() != -1) {
                // What is said does not matter, only that it ends.
            }
            engine.close();
            thread.shutdown();
        }
        System.exit(0);
    }

    private static <T> T made(Map<String, String> config, String name, Class<T> kind) throws Exception {
        return kind.cast(Class.forName(config.get(name)).getDeclaredConstructor().newInstance());
    }
}
